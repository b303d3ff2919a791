"""The loop without some of its host's time: a line that is gone, calls that are not made any more.

In: a ReplayTrace, the Timeline that it was made of, and spans on the training thread. Out: the ReplayTrace whose host
times are shorter by what lies in the spans, whether the GPU was idle meanwhile or not. What is taken out is time
between calls, and calls that start nothing on the GPU; launches, copies and waits stay, but for those that `Calls`
names. The rows that the profiler recorded in the spans go, too, and no others: what they cost is in the time around
them, and a line of Python between two rows, or a call of the driver, is no longer for those that came before it.
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
    calls_made = timeline.tables.calls
    clock = _Clock(calls_made["start_ns"], calls_made["end_ns"], trace.pace)
    columns = block_columns(trace.steps)
    own = {name: getattr(columns, name).copy() for name in ("launch", "gap_ns", "issue_ns", "rows")}
    changed = replace(columns, **own)
    removed = _Removed.of_rows(spans, trace.row_starts)
    shortened = tuple(
        _shortened(step, clock.placed(step, begin, end), removed, _Change(calls or Calls(), changed, trace.pace))
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
    """When the calls of the Timeline began and ended. Times of HostOps are recorded ones times `pace`."""

    starts: Integers
    ends: Integers
    pace: float

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
        gap, issue = (round(time / self.pace) for time in (op.gap_ns, op.issue_ns))
        if op.detached:
            start, until, gap = cursor, cursor, 0
        elif op.call >= 0:
            start, until = max(cursor, int(self.starts[op.call])), int(self.ends[op.call])
        elif op.kind == "loader":
            start, until = cursor + gap, cursor + gap + issue
        else:
            start, until = end, end
        work = issue if op.kind in ("work", "loader") else 0
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
        gap, issue = (np.rint(times[rows] / self.pace).astype(np.int64) for times in (columns.gap_ns, columns.issue_ns))
        before = np.where(detached, cursors, start - gap)
        work = np.where(columns.launch[rows], 0, issue)
        return _Times(before, start, start + work), int(reached[-1])


@dataclass(frozen=True, slots=True)
class _Removed:
    """The spans, and the starts of the rows that begin in them."""

    spans: IntervalSet
    rows: Integers

    @classmethod
    def of_rows(cls, spans: IntervalSet, rows: Integers) -> _Removed:
        """`rows`: all, in order. There may be millions of them, and a few thousand spans: these are looked up."""
        first, last = (np.searchsorted(rows, edges) for edges in spans)
        counts = last - first
        earlier = np.cumsum(counts) - counts
        return cls(spans, rows[np.repeat(first - earlier, counts) + np.arange(counts.sum())])

    def rows_in(self, begin: Integers, end: Integers) -> Integers:
        """How many of the removed rows lie in each [begin, end)."""
        first, last = (np.searchsorted(self.rows, edge) for edge in (begin, end))
        count: Integers = np.maximum(0, last - first)
        return count


@dataclass(frozen=True, slots=True)
class _Loss:
    """What HostOps lose: time before the call, time inside it, rows; and whether the call itself goes."""

    gaps: Integers
    issues: Integers
    rows: Integers
    gone: Bools

    def part(self, own: slice) -> _Loss:
        return _Loss(self.gaps[own], self.issues[own], self.rows[own], self.gone[own])


def _shortened(step: RecordedStep, placed: Sequence[_Times], removed: _Removed, change: _Change) -> RecordedStep:
    """The step without its time in the spans."""
    before, called, until = (
        np.concatenate([getattr(times, name) for times in placed]) for name in ("before", "called", "until")
    )
    gone = intervals.inside(change.calls.spans, called)
    # A launch that stays keeps its own row, which begins with the call.
    own_row = np.where(gone | (until > called), np.maximum(until, called + 1), called)
    loss = _Loss(
        gaps=intervals.covered(removed.spans, before, called),
        issues=intervals.covered(removed.spans, called, until),
        rows=removed.rows_in(before, own_row),
        gone=gone,
    )
    out: list[HostOp | OpBlock] = []
    position = 0
    for element, times in zip(step, placed, strict=True):
        own = slice(position, position + len(times.called))
        position = own.stop
        if isinstance(element, OpBlock):
            change.shorten_block(element, loss.part(own))
            out.append(OpBlock(change.columns, element.index))
        else:
            out.append(change.shortened(element, loss.part(own)))
    return tuple(out)


_KEPT = ("record", "stream_wait", "loader", "background")
"""Calls that others refer to, or that bring the batch."""
_STARTING = ("launch", "staged", "blocking")


@dataclass(frozen=True, slots=True)
class _Change:
    """`columns` start as a copy, into which the blocks are written. What is lost is in recorded time."""

    calls: Calls
    columns: OpColumns
    pace: float

    def shortened(self, op: HostOp, loss: _Loss) -> HostOp:
        """`op` without some of its time, or without its call."""
        if op.detached:
            return op
        gone = bool(loss.gone[0]) and op.kind not in _KEPT
        gap = op.gap_ns - min(op.gap_ns, round(self.pace * int(loss.gaps[0])))
        rows = max(0, op.rows - int(loss.rows[0]))
        if gone and self.calls.gpu_work_stays and op.kind in _STARTING:
            return op._replace(kind="launch", gap_ns=gap, issue_ns=0, rows=rows, return_ns=0)
        if gone:
            return HostOp("work", gap, rows=rows, call=op.call)
        issue = op.issue_ns - min(op.issue_ns, round(self.pace * int(loss.issues[0])))
        return op._replace(gap_ns=gap, issue_ns=issue, rows=rows)

    def shorten_block(self, block: OpBlock, loss: _Loss) -> None:
        """The same for the HostOps of a block."""
        changed = self.columns
        rows = np.arange(block.span.start, block.span.stop)
        own = ~changed.detached[rows]
        gone = loss.gone & own
        gaps, issues = (np.rint(self.pace * times).astype(np.int64) for times in (loss.gaps, loss.issues))
        if not self.calls.gpu_work_stays:
            changed.launch[rows[gone]] = False
        changed.issue_ns[rows[gone]] = 0
        rows = rows[own]
        for column, lost in ((changed.gap_ns, gaps), (changed.issue_ns, issues), (changed.rows, loss.rows)):
            column[rows] = np.maximum(0, column[rows] - lost[own])
