"""The loop without some of its host's time: a line that is gone, calls that are not made any more.

In: a ReplayTrace, the Timeline that it was made of, and spans on the training thread. Out: the ReplayTrace whose host
times are shorter by what lies in the spans, whether the GPU was idle meanwhile or not. What is taken out is time
between calls, and calls that start nothing on the GPU; launches, copies and waits stay, but for those that `Calls`
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracelens.model import Timeline
from tracelens.replay.replay_trace import (
    Bools,
    HostOp,
    Integers,
    OpBlock,
    OpColumns,
    RecordedStep,
    ReplayTrace,
    block_columns,
)
from tracelens.trace import intervals
from tracelens.trace.intervals import IntervalSet


@dataclass(frozen=True, slots=True)
class Calls:
    """What becomes of the calls that begin in `spans`: their time on the host is gone, they wait for nothing, and what
    they start on the GPU stays there or is gone, too."""

    spans: IntervalSet = intervals.EMPTY
    gpu_work_stays: bool = False


def without_spans(
    trace: ReplayTrace, timeline: Timeline, spans: IntervalSet, calls: Calls | None = None
) -> ReplayTrace:
    """The same steps with the host's time in `spans` taken out."""
    steps = timeline.tables.steps
    kept = steps[steps["kept"]]
    clock = _Clock(*(timeline.tables.calls[name] for name in ("start_ns", "end_ns")))
    columns = block_columns(trace.steps)
    own = {name: getattr(columns, name).copy() for name in ("launch", "gap_ns", "issue_ns", "rows")}
    changed = replace(columns, **own)
    shortened = tuple(
        _shortened(step, clock.placed(step, begin, end), spans, _Change(calls or Calls(), changed))
        for step, begin, end in zip(trace.steps, kept["start_ns"].tolist(), kept["end_ns"].tolist(), strict=True)
    )
    return replace(trace, steps=shortened)


@dataclass(frozen=True, slots=True)
class _Times:
    """HostOps on the host's clock: where the time before each begins, where its call begins, where its work ends."""

    before: Integers
    called: Integers
    until: Integers


@dataclass(frozen=True, slots=True)
class _Clock:
    """When the calls of the Timeline began and ended."""

    starts: Integers
    ends: Integers

    def placed(self, step: RecordedStep, begin: int, end: int) -> list[_Times]:
        """The times of each element of a step."""
        cursor, out = begin, []
        for element in step:
            if isinstance(element, OpBlock):
                times, cursor = self._block(element, cursor, end)
            else:
                times, cursor = self._single(element, cursor, end)
            out.append(times)
        return out

    def _single(self, op: HostOp, cursor: int, end: int) -> tuple[_Times, int]:
        if op.detached:
            start, until, gap = cursor, cursor, 0
        elif op.call >= 0:
            start, until, gap = max(cursor, int(self.starts[op.call])), int(self.ends[op.call]), op.gap_ns
        elif op.kind == "loader":
            start, until, gap = cursor + op.gap_ns, cursor + op.gap_ns + op.issue_ns, op.gap_ns
        else:
            start, until, gap = end, end, op.gap_ns
        work = op.issue_ns if op.kind == "work" else 0
        times = (np.array([time], dtype=np.int64) for time in (start - gap, start, start + work))
        return _Times(*times), max(cursor, until)

    def _block(self, block: OpBlock, cursor: int, end: int) -> tuple[_Times, int]:
        columns, rows = block.columns, block.span
        call, detached = columns.call[rows], columns.detached[rows]
        made = call >= 0
        until = np.where(detached, cursor, np.where(made, self.ends[call], end))
        reached = np.maximum.accumulate(np.append(cursor, until))
        cursors = reached[:-1]
        start = np.where(made, np.maximum(cursors, self.starts[call]), end)
        start = np.where(detached, cursors, start)
        before = np.where(detached, cursors, start - columns.gap_ns[rows])
        work = np.where(columns.launch[rows], 0, columns.issue_ns[rows])
        return _Times(before, start, start + work), int(reached[-1])


def _shortened(step: RecordedStep, placed: Sequence[_Times], spans: IntervalSet, change: _Change) -> RecordedStep:
    """The step without its time in the spans."""
    before, called, until = (
        np.concatenate([getattr(times, name) for times in placed]) for name in ("before", "called", "until")
    )
    gaps, issues = intervals.covered(spans, before, called), intervals.covered(spans, called, until)
    gone = intervals.inside(change.calls.spans, called)
    out: list[HostOp | OpBlock] = []
    position = 0
    for element, times in zip(step, placed, strict=True):
        own = slice(position, position + len(times.called))
        position = own.stop
        if isinstance(element, OpBlock):
            change.shorten_block(element, gaps[own], issues[own], gone[own])
            out.append(OpBlock(change.columns, element.index))
        else:
            out.append(change.shortened(element, int(gaps[own][0]), int(issues[own][0]), bool(gone[own][0])))
    return tuple(out)


_KEPT = ("record", "stream_wait", "loader", "background")
"""Calls that others refer to, or that bring the batch."""
_STARTING = ("launch", "staged", "blocking")


@dataclass(frozen=True, slots=True)
class _Change:
    """`columns` start as a copy, into which the blocks are written."""

    calls: Calls
    columns: OpColumns

    def shortened(self, op: HostOp, gap: int, issue: int, gone: bool) -> HostOp:
        """`op` without some of its time, or without its call."""
        gone = gone and op.kind not in _KEPT and not op.detached
        issue = op.issue_ns if gone else issue
        if op.detached:
            return op
        left = 1 - (gap + issue) / max(1, op.gap_ns + op.issue_ns)
        rows = round(op.rows * left)
        if gone and self.calls.gpu_work_stays and op.kind in _STARTING:
            return op._replace(kind="launch", gap_ns=op.gap_ns - gap, issue_ns=0, rows=rows, return_ns=0)
        if gone:
            return HostOp("work", op.gap_ns - gap, rows=rows, call=op.call)
        return op._replace(gap_ns=op.gap_ns - gap, issue_ns=op.issue_ns - issue, rows=rows)

    def shorten_block(self, block: OpBlock, gaps: Integers, issues: Integers, gone: Bools) -> None:
        """The same for the HostOps of a block."""
        changed = self.columns
        rows = np.arange(block.span.start, block.span.stop)
        gone = gone & ~changed.detached[rows]
        issues = np.where(gone, changed.issue_ns[rows], issues)
        if not self.calls.gpu_work_stays:
            changed.launch[rows[gone]] = False
        less = ~changed.detached[rows] & (gaps + issues > 0)
        rows, gaps, issues = rows[less], gaps[less], issues[less]
        left = 1 - (gaps + issues) / (changed.gap_ns[rows] + changed.issue_ns[rows])
        changed.rows[rows] = np.rint(changed.rows[rows] * left)
        changed.gap_ns[rows] -= gaps
        changed.issue_ns[rows] -= issues
