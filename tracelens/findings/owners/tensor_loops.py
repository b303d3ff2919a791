"""Lines that launch the same operation for one tensor after the other: a norm per parameter, a copy per weight.

In: a Timeline, its host, segments. Out: line numbers; and of an optimizer that goes through its tensors one by one the
operations that it launches. One call for all tensors (`torch._foreach_…`) would do. Layers of a model are no such
loop: their operations make nodes of the backward pass, and each needs the one before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners.idle_segments import Host
from tracelens.findings.owners.sums import heaviest
from tracelens.model import Timeline
from tracelens.trace import intervals
from tracelens.trace.tables import among

Column = npt.NDArray[Any]

FEWEST = 8
"""Launches of one kernel per step at one line: fewer are not worth another form of writing it."""
_AT_ONCE = ("multi_tensor_apply", "FusedAdam", "fused_adam", "foreach")
"""In names of kernels that take many tensors."""


def lines(timeline: Timeline, kept: KeptSteps, host: Host, line_of: Column) -> Column:
    """The numbers of these lines. None where the trace does not tell which operations have a gradient."""
    made = _launches(timeline, kept)
    if not len(host.forward.paths) or not len(made):
        return np.empty(0, dtype=np.int64)
    starts = timeline.tables.calls["start_ns"][made]
    spans = host.activities
    beside = (spans.optimizer.at(starts) < 0) & (spans.backward.at(starts) < 0) & (spans.dataloader.at(starts) < 0)
    made, starts = made[beside], starts[beside]
    line = line_of[host.lines.at(starts)]
    kernel = timeline.tables.ops["name"].codes[timeline.tables.calls["op"][made]]
    count = int(line.max(initial=-1)) + 1
    often = [
        number
        for number, names in enumerate(heaviest(line, kernel, np.ones(len(line)), count + 1)[:count])
        if names and names[0][1] >= FEWEST * kept.count
    ]
    with_gradient = np.unique(line_of[host.forward.paths])
    return np.setdiff1d(np.array(often, dtype=np.int64), with_gradient)


def optimizer_operations(timeline: Timeline, kept: KeptSteps, host: Host) -> intervals.IntervalSet | None:
    """The launching operations of `Optimizer.step`; None where it takes its tensors at once."""
    made = _launches(timeline, kept)
    starts = timeline.tables.calls["start_ns"][made]
    inside = made[host.activities.optimizer.at(starts) >= 0]
    if not len(inside):
        return None
    names = timeline.tables.ops["name"]
    kernel = names.codes[timeline.tables.calls["op"][inside]]
    alone = np.array([not any(word in name for word in _AT_ONCE) for name in names.words])
    counts = np.bincount(kernel, minlength=len(alone))
    if counts[alone].max(initial=0) < FEWEST * kept.count or counts[alone].sum() < counts[~alone].sum():
        return None
    done = host.operations
    launching = (done.launches > 0) & (host.activities.optimizer.at(done.starts) >= 0)
    return intervals.union(done.starts[launching], done.ends[launching])


def _launches(timeline: Timeline, kept: KeptSteps) -> Column:
    """Calls of the kept steps that start work on the GPU and move nothing between it and the host."""
    calls, ops = timeline.tables.calls, timeline.tables.ops
    op = calls["op"]
    made = np.flatnonzero((op >= 0) & kept.holds(calls["step"]))
    moves = among(ops["direction"], "h2d", "d2h")[op[made]]
    return np.asarray(made[~moves])
