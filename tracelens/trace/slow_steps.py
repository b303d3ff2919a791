"""Steps that the machine and not the loop made slow: found, so that they do not distort the mean.

In: steps, calls and DataLoader spans. Out: which kept steps to leave out. On a shared host one step in ten may take two
or three times as long as its neighbors that make exactly the same calls; a mean over ten steps would then describe
none of them. Two cases must stay in: periodic work makes other calls, and a loader with workers that delivers in bursts
is a property of the loop.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracelens.model import TraceTable
from tracelens.trace.tables import among

FACTOR = 1.5
"""Steps of one loop differed by up to 1.3 x on a busy shared host; outliers from 1.5 x to 3.4 x."""
MOST_SHARE = 0.2
"""If more than a fifth of the steps are slow, that is the loop's own speed."""
FEWEST_STEPS = 8
"""With fewer steps an outlier cannot be told from the usual step."""
BY_WORKERS = "MultiProcessing"


def find(step: TraceTable, calls: TraceTable, loader: TraceTable) -> npt.NDArray[np.bool_]:
    """A mask over the rows of `step`: kept steps that the machine made slow."""
    kept = step["kept"]
    none = np.zeros(len(step), dtype=np.bool_)
    if kept.sum() < FEWEST_STEPS or not len(calls):
        return none
    duration = (step["end_ns"] - step["start_ns"]) - _waiting_for_workers(step, loader)
    made = np.bincount(calls["step"][calls["step"] >= 0], minlength=len(step))
    usual_calls = np.bincount(made[kept]).argmax()
    slow = kept & (made == usual_calls) & (duration > FACTOR * np.median(duration[kept]))
    return slow if slow.sum() <= MOST_SHARE * kept.sum() else none


def _waiting_for_workers(step: TraceTable, loader: TraceTable) -> npt.NDArray[np.int64]:
    """Per step, the time inside a DataLoader that has workers."""
    with_workers = among(loader["name"], *(name for name in loader["name"].words if BY_WORKERS in name))
    own = loader[(loader["step"] >= 0) & with_workers]
    spent = np.zeros(len(step), dtype=np.int64)
    np.add.at(spent, own["step"], (own["end_ns"] - own["start_ns"]))
    return spent
