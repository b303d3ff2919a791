"""The loop without some of its host's time: a line that is gone, calls that are not made any more.

In: a ReplayTrace, the Timeline that it was made of, and spans on the training thread. Out: the ReplayTrace whose host
times are shorter by what lies in the spans, whether the GPU was idle meanwhile or not. Launches and waits stay: what is
taken out is time between calls, and calls that start nothing on the GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import Timeline
from tracelens.replay.replay_trace import HostOp, RecordedStep, ReplayTrace, all_host_ops, with_op_blocks
from tracelens.trace import intervals
from tracelens.trace.intervals import IntervalSet

Column = npt.NDArray[Any]


def without_spans(trace: ReplayTrace, timeline: Timeline, spans: IntervalSet) -> ReplayTrace:
    """The same steps with the host's time in `spans` taken out."""
    steps = timeline.steps()
    kept = steps[steps["kept"].to_numpy(dtype=bool)]
    calls = timeline.calls()
    starts, ends = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    shortened = []
    for step, begin, end in zip(trace.steps, kept["start_ns"].tolist(), kept["end_ns"].tolist(), strict=True):
        placed = tuple(_placed(step, (begin, end), starts, ends))
        shortened.append(with_op_blocks(_shortened(placed, spans)))
    return replace(trace, steps=tuple(shortened))


_Placed = tuple[HostOp, int, int]
"""A HostOp with the start of its gap, and the start of its call."""


def _placed(step: RecordedStep, borders: tuple[int, int], starts: Column, ends: Column) -> Iterator[_Placed]:
    """Where each HostOp was on the host's clock."""
    cursor, end = borders
    for op in all_host_ops(step):
        if op.detached:
            yield op, cursor, cursor
            continue
        if op.call >= 0:
            start, until = max(cursor, int(starts[op.call])), int(ends[op.call])
        elif op.kind == "loader":
            start, until = cursor + op.gap_ns, cursor + op.gap_ns + op.issue_ns
        else:
            start, until = end, end
        yield op, start - op.gap_ns, start
        cursor = max(cursor, until)


def _shortened(placed: tuple[_Placed, ...], spans: IntervalSet) -> list[HostOp]:
    before = np.array([start for _, start, _ in placed], dtype=np.int64)
    called = np.array([start for _, _, start in placed], dtype=np.int64)
    until = called + np.array([op.issue_ns if op.kind == "work" else 0 for op, _, _ in placed], dtype=np.int64)
    gaps, issues = intervals.covered(spans, before, called), intervals.covered(spans, called, until)
    ops = []
    for (op, _, _), gap, issue in zip(placed, gaps.tolist(), issues.tolist(), strict=True):
        if op.detached or not gap + issue:
            ops.append(op)
            continue
        left = 1 - (gap + issue) / (op.gap_ns + op.issue_ns)
        ops.append(op._replace(gap_ns=op.gap_ns - gap, issue_ns=op.issue_ns - issue, rows=round(op.rows * left)))
    return ops
