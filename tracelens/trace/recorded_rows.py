"""What the profiler wrote down of the training loop's threads, row by row, and how much idle time that took.

In: a Timeline, and which steps count. Out: the starts of the rows; of those that begin while the GPU idles,
which part of that time is the profiler's own when writing a row costs so much. A row that begins while the GPU works
costs the host as much, but no idle time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracelens.model import Timeline
from tracelens.trace import intervals, streams
from tracelens.trace.columns import rows_among
from tracelens.trace.intervals import IntervalSet

Times = npt.NDArray[np.int64]

HOST_ROWS = ("cpu_op", "cuda_runtime", "cuda_driver", "python_function", "user_annotation")
"""Categories whose rows cost the host time when they are recorded."""
MOST_ROW_NS = 7_000.0
"""H200 loops gave 0.9-3.6 µs per row without stacks on one machine, 3.8-6.7 µs on a busier one."""
_ROUNDS = 30
"""Of halving `MOST_ROW_NS`: to far below a nanosecond."""


def loop_threads(timeline: Timeline) -> list[int]:
    """The thread of the training loop, and autograd's."""
    return [thread for thread in (timeline.main_thread, *timeline.autograd_threads) if thread is not None]


def host_rows(timeline: Timeline) -> Times:
    """Starts of all rows that were recorded on the loop's threads, in order."""
    trace = timeline.trace
    if not len(trace.categories) or "category" not in trace.columns:
        return np.empty(0, dtype=np.int64)
    chosen = rows_among(trace.columns["category"], trace.categories, HOST_ROWS)
    chosen &= np.isin(trace.columns["tid"], loop_threads(timeline))
    starts: npt.NDArray[Any] = np.sort(trace.columns["start_ns"][chosen])
    return starts


@dataclass(frozen=True, slots=True)
class IdleRows:
    """Rows that begin while the GPU idles. `room`: until the next row begins, or the GPU; no row takes more."""

    starts: Times
    room: Times

    def taken_ns(self, row_ns: float) -> float:
        """Idle time that they took at so much for each."""
        return float(np.minimum(self.room, row_ns).sum())

    def spans(self, row_ns: float) -> IntervalSet:
        """The same as a set: from the start of each row on."""
        return intervals.union(self.starts, self.starts + np.minimum(self.room, round(row_ns)))

    def row_ns(self, taken_ns: float) -> float:
        """What each cost where they took so much together; at most `MOST_ROW_NS`."""
        low, high = 0.0, MOST_ROW_NS
        if self.taken_ns(high) <= taken_ns:
            return high
        for _ in range(_ROUNDS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.taken_ns(middle) < taken_ns else (low, middle)
        return low


class HostTime(NamedTuple):
    """Some of the host's time, ns: all of it, that in which the GPU idles, and of this the profiler's own."""

    spent_ns: int
    idle_ns: int
    profiler_ns: int


def host_time(timeline: Timeline, spans: IntervalSet, row_ns: float) -> HostTime:
    """What these spans of the host's time are made of where writing a row costs so much."""
    idle = intervals.subtract(spans, streams.working(timeline.tables.ops))
    return HostTime(*map(intervals.total, (spans, idle, profiler_spans(timeline, spans, row_ns))))


def profiler_spans(timeline: Timeline, spans: IntervalSet, row_ns: float) -> IntervalSet:
    """The idle time in these spans that rows took at so much for each."""
    return in_idle_time(timeline, spans).spans(row_ns) if row_ns > 0 else intervals.EMPTY


def in_idle_time(timeline: Timeline, spans: IntervalSet) -> IdleRows:
    """The rows that begin in idle time of these spans, with the room that each has there."""
    idle = intervals.subtract(spans, streams.working(timeline.tables.ops))
    rows = intervals.distinct(host_rows(timeline))
    starts = rows[intervals.inside(idle, rows)]
    following = np.searchsorted(rows, starts, side="right")
    gap_ends = idle[1][np.searchsorted(idle[0], starts, side="right") - 1]
    next_starts = np.append(rows, np.iinfo(np.int64).max)[following]
    return IdleRows(starts, np.minimum(next_starts, gap_ends) - starts)
