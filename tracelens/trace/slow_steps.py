"""Slow steps: those that the machine and not the loop made slow, and those that the loop makes now and then.

In: steps, calls and DataLoader spans. Out: which kept steps to leave out. On a shared host one step in ten may take two
or three times as long as its neighbors that make exactly the same calls; a mean over ten steps would then describe
none of them. Two cases must stay in: periodic work makes other calls, and a loader with workers that delivers in bursts
is a property of the loop.

Where the steps before the profiler tell that periodic work is a part of the training time, the recorded steps that hold
it are left out as well, and told of by themselves: a window of twelve steps holds none of them, or one, and its mean is
that of no training. Work that the GPU does meanwhile is not lost, so such steps stay where the host only waits for it.
Where hardly any of many steps before the profiler was slow, a recorded one that is comes less often than the window has
it, such as samples that are shown every 200 steps: it is left out, too, whatever it calls.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracelens.model import SlowPattern, SlowRows, StepClock, TraceTable
from tracelens.model.slow_steps import LEAST_SHARE
from tracelens.trace import intervals, step_periods, streams
from tracelens.trace.tables import among

FACTOR = 1.5
"""Steps of one loop differed by up to 1.3 x on a busy shared host; outliers from 1.5 x to 3.4 x."""
MOST_SHARE = 0.2
"""If more than a fifth of the steps are slow, that is the loop's own speed."""
FEWEST_STEPS = 8
"""With fewer steps an outlier cannot be told from the usual step."""
FEWEST_SEEN = 2
"""Slow steps among the unprofiled ones: a single one may be anything."""
OVERSTATED = 4
"""By so many times a window has more of what is slow than the steps before it: then it says nothing of the training."""
MOSTLY = 0.5
"""Of what slow steps take longer."""
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


def overstated(step: TraceTable, loader: TraceTable, clock: StepClock | None) -> npt.NDArray[np.bool_]:
    """A mask over the rows of `step`: kept steps that are slow, where next to none of the unprofiled steps was. By what
    they wait for workers they are not, and without it they are."""
    kept = step["kept"]
    none = np.zeros(len(step), dtype=np.bool_)
    lengths = np.array(clock.unprofiled_ns if clock is not None else (), dtype=np.int64)
    if kept.sum() < FEWEST_STEPS or not len(lengths):
        return none
    whole = step["end_ns"] - step["start_ns"]
    slow = kept.copy()
    for duration in (whole, whole - _waiting_for_workers(step, loader)):
        slow &= duration > FACTOR * np.median(duration[kept])
    if slow.sum() > MOST_SHARE * kept.sum():
        return none
    before = max(1, (lengths > FACTOR * np.median(lengths)).sum()) / len(lengths)  # one might have been seen next
    return slow if OVERSTATED * before <= slow.sum() / kept.sum() else none


def told_apart(step: TraceTable, ops: TraceTable, loader: TraceTable, clock: StepClock | None) -> SlowRows | None:
    """The slow steps that the training makes now and then, as the unprofiled steps tell; None where they are next to
    nothing of its time, and where it is the DataLoader that delivers in bursts. Of two at least, because one may be
    anything."""
    pattern = step_periods.find(clock.unprofiled_ns) if clock is not None else None
    if pattern is None or pattern.seen < FEWEST_SEEN:
        return None
    rows = _recorded(step, pattern)
    if _are_the_loaders(rows, step, loader):
        return None
    ordinary = step["kept"].copy()
    ordinary[rows] = False
    found = SlowRows(pattern, tuple(rows.tolist()), _work(ops, np.flatnonzero(ordinary)))
    return found if found.share >= LEAST_SHARE and ordinary.any() else None


def _recorded(step: TraceTable, pattern: SlowPattern) -> npt.NDArray[np.int64]:
    """Positions of the recorded steps that are slow; attributed ones are longer anyway, and are kept by nobody."""
    kept = step["kept"]
    if not kept.any():
        return np.empty(0, dtype=np.int64)
    duration = step["end_ns"] - step["start_ns"]
    least = np.median(duration[kept]) + pattern.least_slow_ns - pattern.ordinary_ns
    return np.flatnonzero(kept & (duration > least))


def _are_the_loaders(rows: npt.NDArray[np.int64], step: TraceTable, loader: TraceTable) -> bool:
    """Whether slow steps are longer by what the training thread is in the DataLoader."""
    if not len(rows) or not len(loader):
        return False
    others = step["kept"].copy()
    others[rows] = False
    longer, loading = (
        column[rows].mean() - column[others].mean() if others.any() else 0.0
        for column in (step["end_ns"] - step["start_ns"], _loading(step, loader[loader["step"] >= 0]))
    )
    return bool(loading >= MOSTLY * longer)


def _work(ops: TraceTable, ordinary: npt.NDArray[np.int64]) -> int:
    """What the GPU that works most does for an ordinary step, wherever it does it."""
    device = streams.main_device(ops)
    if device is None or not len(ordinary):
        return 0
    own = (ops["device"] == device) & np.isin(ops["step"], ordinary)
    return intervals.total(intervals.union(ops["start_ns"][own], ops["end_ns"][own])) // len(ordinary)


def _waiting_for_workers(step: TraceTable, loader: TraceTable) -> npt.NDArray[np.int64]:
    """Per step, the time inside a DataLoader that has workers."""
    with_workers = among(loader["name"], *(name for name in loader["name"].words if BY_WORKERS in name))
    return _loading(step, loader[(loader["step"] >= 0) & with_workers])


def _loading(step: TraceTable, own: TraceTable) -> npt.NDArray[np.int64]:
    spent = np.zeros(len(step), dtype=np.int64)
    np.add.at(spent, own["step"], (own["end_ns"] - own["start_ns"]))
    return spent
