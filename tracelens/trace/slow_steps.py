"""Steps that the machine made slow, not the loop: recognized, so that a few of them do not speak for all.

In: steps, calls and DataLoader spans. Out: which kept steps to leave out. On a shared host one step in ten may take
twice or three times as long as its neighbors that make exactly the same calls; a mean over ten steps would then
describe none of them. Apart because it is the only place where a complete step is dropped, and it must be careful:
periodic work makes other calls, and a loader with workers that delivers in bursts is the loop's own doing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

FACTOR = 1.5
"""Steps of one loop differed by up to 1.3 x on a busy shared host; hiccups were seen from 1.5 x to 3.4 x."""
MOST_SHARE = 0.2
"""If more than a fifth of the steps are slow, slow is what this loop is."""
FEWEST_STEPS = 8
"""Below, there is no telling which step is the exception."""
BY_WORKERS = "MultiProcessing"


def find(step: pd.DataFrame, calls: pd.DataFrame, loader: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """A mask over the rows of `step`: kept steps that are hiccups."""
    kept = step["kept"].to_numpy(dtype=np.bool_)
    none = np.zeros(len(step), dtype=np.bool_)
    if kept.sum() < FEWEST_STEPS or not len(calls):
        return none
    duration = (step["end_ns"] - step["start_ns"]).to_numpy() - _waiting_for_workers(step, loader)
    made = np.bincount(calls["step"].to_numpy()[calls["step"].to_numpy() >= 0], minlength=len(step))
    usual_calls = np.bincount(made[kept]).argmax()
    slow = kept & (made == usual_calls) & (duration > FACTOR * np.median(duration[kept]))
    return slow if slow.sum() <= MOST_SHARE * kept.sum() else none


def _waiting_for_workers(step: pd.DataFrame, loader: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Per step, the time inside a DataLoader that has workers."""
    own = loader[(loader["step"] >= 0) & loader["name"].astype(str).str.contains(BY_WORKERS)]
    spent = np.zeros(len(step), dtype=np.int64)
    np.add.at(spent, own["step"].to_numpy(), (own["end_ns"] - own["start_ns"]).to_numpy())
    return spent
