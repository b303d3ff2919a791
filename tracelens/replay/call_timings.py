"""Latencies, gaps, return times and completion times of a trace: one value per call, and medians per run.

In: a Timeline and the default Calibration. Out: `CallTimings`: arrays with one entry per call of the Timeline. A value
is taken from the trace where nothing else determined it (a launch into an empty stream shows the launch latency, a
queued operation shows the gap between kernels). Elsewhere the median of the run is used. An Edit that changes which
constraint decides therefore does not count the jitter of a launch twice.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens.model import Timeline, TraceTable
from tracelens.replay.calibration import Calibration
from tracelens.trace import waits
from tracelens.trace.numbering import numbered
from tracelens.trace.streams import distinct_streams
from tracelens.trace.tables import among

Array = np.ndarray[Any, np.dtype[np.int64]]

NOT_LAUNCHED = -(1 << 62)
FULL_QUEUE = 0.95
"""A launch counts as blocked by a full queue when this share of the limit is outstanding: limits vary by some 2 %."""
LATENCY_FACTOR = 10
"""A launch latency above ten medians is another cause (module loading, a busy engine); it is kept to that much."""
LONGEST_GAP_NS = 20_000
"""A longer idle time between queued operations is no kernel gap but a dependency that the trace does not name."""
LONGEST_RETURN_NS = 1_000_000
"""A wait that returns later than 1 ms after its work was descheduled; the median stands in."""


@dataclass(frozen=True, slots=True)
class CallTimings:
    """Per call, in the Timeline's order. Times are those of the trace; -1 or NONE where a call has no such thing."""

    streams: tuple[str, ...]
    stream: Array
    """Position in `streams`: of the launched op, or of the stream waited for; -1 all or unknown."""
    op_start: Array
    op_end: Array
    previous_end: Array
    """When the stream's earlier launches were done, NONE for the first."""
    all_done: Array
    """When everything launched before the call was done."""
    latency: Array
    spacing: Array
    blocked: np.ndarray[Any, np.dtype[np.bool_]]
    """The call waited for room in the launch queue."""
    calibration: Calibration
    """The defaults with this trace's medians in their place."""
    launches: tuple[tuple[list[int], list[int]], ...]
    """Per stream: the calls that launch to it, and when all was done that was launched before each, and after all."""

    def done(self, call: int, stream: int) -> int:
        """When the work launched before this call on `stream` (-1: on all) was done; NONE if there was none."""
        if stream < 0:
            return int(self.all_done[call])
        calls, ends = self.launches[stream]
        return ends[bisect_left(calls, call)]


def measure_calls(timeline: Timeline, defaults: Calibration) -> CallTimings:
    """Read the numbers of one trace."""
    calls, ops = timeline.tables.calls, timeline.tables.ops
    names, codes = _streams(ops)
    op_start, op_end, stream = _spans(len(calls), ops, codes)
    waited = _waited_streams(calls, ops)
    launched = op_end >= 0
    earlier = _earlier_ends(calls, ops, codes, len(names))
    previous_end = _previous_ends(stream, op_end, launched, earlier)
    called = calls["start_ns"]
    kernels = launched & among(calls["kind"], "launch")
    empty = kernels & (previous_end <= called)
    latency_ns = _median((op_start - called)[empty], defaults.launch_latency_ns)
    queued = launched & (previous_end > called + latency_ns)
    gaps = (op_start - previous_end)[queued]
    spacing_ns = _median(gaps[gaps >= 0], defaults.kernel_gap_ns)
    free = launched & (previous_end <= called)
    issue = calls["end_ns"] - calls["start_ns"]
    return CallTimings(
        streams=names,
        stream=np.where(launched, stream, waited),
        op_start=op_start,
        op_end=op_end,
        previous_end=previous_end,
        all_done=_running_maximum(op_end, int(earlier.max(initial=NOT_LAUNCHED))),
        latency=np.where(free, np.clip(op_start - called, 0, LATENCY_FACTOR * latency_ns), latency_ns),
        spacing=np.where(queued, np.clip(op_start - previous_end, 0, LONGEST_GAP_NS), spacing_ns),
        blocked=_blocked(stream, called, op_start, defaults.queue_limit),
        calibration=replace(
            defaults,
            launch_latency_ns=latency_ns,
            kernel_gap_ns=spacing_ns,
            launch_issue_ns=_median(issue[kernels], defaults.launch_issue_ns),
        ),
        launches=tuple(_launches(stream, op_end, int(first), code) for code, first in enumerate(earlier)),
    )


def _median(values: Array, otherwise: int) -> int:
    return int(np.median(values)) if len(values) else otherwise


def _streams(ops: TraceTable) -> tuple[tuple[str, ...], Array]:
    """The streams by device and number, and for each op the position of its own."""
    known, codes = distinct_streams(ops)
    many = len({device for device, _ in known}) > 1
    names = tuple(f"GPU {device} stream {stream}" if many else f"stream {stream}" for device, stream in known)
    return names, codes


def _spans(calls: int, ops: TraceTable, codes: Array) -> tuple[Array, Array, Array]:
    """Start, end and stream of what each call launched; a graph's ops count as one."""
    start = np.full(calls, np.iinfo(np.int64).max)
    end = np.full(calls, -1, dtype=np.int64)
    stream = np.full(calls, -1, dtype=np.int64)
    owner = ops["call"]
    linked = owner >= 0
    np.minimum.at(start, owner[linked], ops["start_ns"][linked])
    np.maximum.at(end, owner[linked], ops["end_ns"][linked])
    stream[owner[linked][::-1]] = codes[linked][::-1]
    return np.where(end >= 0, start, -1), end, stream


def _waited_streams(calls: TraceTable, ops: TraceTable) -> Array:
    """For calls that launch nothing: the position of the stream they name, -1 where it is unknown or idle."""
    known, _ = distinct_streams(ops)
    position: dict[int, int] = {}
    for index, (_, stream) in enumerate(known):
        # The same number on two devices names two streams; then the call's own device would be needed.
        position[stream] = -1 if stream in position else index
    named, code = numbered(calls["stream"])
    return np.array([position.get(stream, -1) for stream in named.tolist()], dtype=np.int64)[code]


def _launches(stream: Array, op_end: Array, first: int, code: int) -> tuple[list[int], list[int]]:
    own = np.flatnonzero((stream == code) & (op_end >= 0))
    return own.tolist(), np.maximum.accumulate(np.concatenate(([first], op_end[own]))).tolist()


def _earlier_ends(calls: TraceTable, ops: TraceTable, codes: Array, streams: int) -> Array:
    ends = np.full(streams, NOT_LAUNCHED, dtype=np.int64)
    before = waits.launch_times(calls, ops) == waits.BEFORE
    np.maximum.at(ends, codes[before], ops["end_ns"][before])
    return ends


def _previous_ends(stream: Array, op_end: Array, launched: np.ndarray[Any, np.dtype[np.bool_]], first: Array) -> Array:
    previous = np.full(len(stream), NOT_LAUNCHED, dtype=np.int64)
    for code in np.unique(stream[launched]):
        own = np.flatnonzero(launched & (stream == code))
        previous[own] = np.maximum.accumulate(np.concatenate((first[[code]], op_end[own])))[:-1]
    return previous


def _running_maximum(op_end: Array, first: int) -> Array:
    """For each call the latest end of what was launched before it."""
    ends = np.where(op_end >= 0, op_end, NOT_LAUNCHED)
    return np.maximum.accumulate(np.concatenate(([first], ends)))[:-1]


def _blocked(stream: Array, called: Array, op_start: Array, limit: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    out = np.zeros(len(stream), dtype=np.bool_)
    for code in np.unique(stream[op_start >= 0]):
        own = np.flatnonzero((stream == code) & (op_start >= 0))
        started = np.searchsorted(np.sort(op_start[own]), called[own], side="right")
        out[own] = np.arange(len(own)) - started >= FULL_QUEUE * limit
    return out
