"""The order of a step on the host: each call and each batch asked for, with the host time before it and inside it.

In: CallColumns, the loader's spans and the recorded rows of a Timeline; the borders of a step. Out: a `HostSequence`.
Calls may nest or overlap between threads: each takes the time that is not taken yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens.model import Timeline
from tracelens.replay.call_columns import CallColumns
from tracelens.replay.replay_trace import Bools, Integers
from tracelens.trace.recorded_rows import host_rows

_MEETING_THE_GPU = ("device_sync", "stream_sync", "event_sync", "event_record", "stream_wait")
"""A loader that pins its batches in the main thread asks for memory and looks at events besides: that is its work."""
LOADER, REST = -1, -2
"""In place of a call: the loop inside the loader, and what the host does after its last call."""


class StepSpan(NamedTuple):
    """A step of the Timeline: its position, and its borders on the host's clock."""

    position: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class HostSequence:
    """The items of one step in host order."""

    call: Integers
    """Position in the calls, or LOADER or REST."""
    gap_ns: Integers
    issue_ns: Integers
    """The time inside, waiting included."""
    rows: Integers
    """What the profiler recorded on the threads of the loop meanwhile."""
    detached: Bools
    """Made by another thread."""


class HostOrder:
    """Puts steps in order; what all steps share is looked up once."""

    def __init__(self, timeline: Timeline, calls: CallColumns) -> None:
        self._calls = calls
        self._steps = timeline.tables.calls["step"]
        waits = timeline.tables.waits
        self._edge = np.zeros(len(self._steps), dtype=np.bool_)
        self._edge[waits["call"][waits["window_edge"]]] = True
        loader = timeline.tables.loader
        self._load_step, self._load_start, self._load_end = (loader[name] for name in ("step", "start_ns", "end_ns"))
        self.row_starts = host_rows(timeline)
        self._essential = calls.launched | calls.of_kind(*_MEETING_THE_GPU)

    def sequence(self, step: StepSpan) -> HostSequence:
        """From the start of the step to its end."""
        calls = self._calls
        inside = np.flatnonzero((self._steps == step.position) & ~self._edge)
        inside = inside[calls.own[inside] | calls.launched[inside]]
        begins, ends = self._loads(step.position, calls.start_ns[inside[calls.own[inside] & self._essential[inside]]])
        inside = inside[~(calls.own[inside] & _within(calls.start_ns[inside], begins, ends))]
        call = np.append(inside, np.full(len(begins), LOADER))
        begin = np.append(calls.start_ns[inside], begins)
        end = np.append(calls.end_ns[inside], ends)
        order = np.lexsort((end, begin))
        call, begin, end = (np.append(column[order], last) for column, last in (
            (call, REST), (begin, step.end_ns), (end, step.end_ns)
        ))  # fmt: skip
        own = (call < 0) | calls.own[np.maximum(call, 0)]
        reached = np.maximum.accumulate(np.append(step.start_ns, end[own]))
        before, until = reached[:-1], reached[1:]
        gap, issue, rows = (np.zeros(len(call), dtype=np.int64) for _ in range(3))
        gap[own] = np.maximum(0, begin[own] - before)
        issue[own] = until - np.maximum(begin[own], before)
        rows[own] = np.searchsorted(self.row_starts, until) - np.searchsorted(self.row_starts, before)
        rows[own & (call >= 0) & (rows == 0)] = 1  # the call's own
        return HostSequence(call, gap, issue, rows, ~own)

    def _loads(self, position: int, called: Integers) -> tuple[Integers, Integers]:
        """Spans inside the loader in which the loop made no call that meets the GPU."""
        chosen = self._load_step == position
        begins, ends = self._load_start[chosen], self._load_end[chosen]
        times = np.sort(called)
        empty = np.searchsorted(times, begins) == np.searchsorted(times, ends)
        return begins[empty], ends[empty]


def _within(instants: Integers, begins: Integers, ends: Integers) -> Bools:
    """Which instants lie in one of some spans, which are in order."""
    if not len(begins):
        return np.zeros(len(instants), dtype=np.bool_)
    last = np.searchsorted(begins, instants, side="right") - 1
    return (last >= 0) & (instants < ends[np.maximum(last, 0)])
