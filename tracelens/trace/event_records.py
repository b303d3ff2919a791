"""Which event record each wait and synchronize refers to, from what the script did with its CUDA events.

In: calls, and the event uses that the recording noted in Python. Out: the calls with `stream` where the trace does not
name it, and `record`. Traces of CUDA 12.9 and later leave both out (-1). Events of C++ code (allocator, NCCL, autograd)
are not among the noted uses; their calls stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

import numpy as np

from tracelens.model import EventUse, RankRecording, Trace, TraceTable
from tracelens.trace.tables import among

KIND_OF = {"record": "event_record", "wait": "stream_wait", "synchronize": "event_sync"}
TOLERANCE_NS = 5_000
"""The call lies inside the Python method that makes it; the two clocks agree to a few µs."""
MOST_STREAMS = 1 << 31
"""Stream numbers have 32 bits in every trace; larger ones in the file of uses are ignored."""
UNKNOWN = -1
EARLIER = -2
"""The event was recorded before the trace began."""


def with_records(calls: TraceTable, trace: Trace, recording: RankRecording | None) -> TraceTable:
    """The calls with `record`: for a stream wait or an event synchronize the position of the call that recorded what it
    refers to, for that call its own; `EARLIER` or `UNKNOWN`. A stream that the trace states takes precedence."""
    record = np.full(len(calls), UNKNOWN, dtype=np.int64)
    stream = calls["stream"].copy()
    uses = recording.events if recording is not None else ()
    if trace.base_unix_ns is not None and len(calls) and uses:
        began = int(calls["start_ns"][0]) - TOLERANCE_NS
        latest: dict[int, int] = {}
        for use, call in _matched(calls, uses, trace.base_unix_ns):
            if use.call == "record":
                earlier = use.end_unix_ns - trace.base_unix_ns < began
                latest[use.event] = call if call >= 0 else EARLIER if earlier else UNKNOWN
            if call >= 0:
                record[call] = latest.get(use.event, EARLIER)
            if call >= 0 and use.stream is not None and stream[call] < 0 and 0 <= use.stream < MOST_STREAMS:
                stream[call] = use.stream
    return calls.with_columns(stream=stream, record=record)


def _matched(calls: TraceTable, uses: Iterable[EventUse], zero_ns: int) -> list[tuple[EventUse, int]]:
    """Each use that makes a call, in order of time, with the position of that call; -1 where the trace has none."""
    starts, threads = calls["start_ns"], calls["thread"]
    places: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
    for kind in KIND_OF.values():
        of_kind = among(calls["kind"], kind)
        for thread in np.unique(threads[of_kind]).tolist():
            own: np.ndarray[Any, Any] = np.flatnonzero(of_kind & (threads == thread))
            places[kind, thread] = (starts[own].tolist(), own.tolist())
    taken: dict[tuple[str, int], int] = {}
    matches = []
    for use in sorted(uses, key=lambda use: use.start_unix_ns):
        if use.call not in KIND_OF:
            continue
        key = (KIND_OF[use.call], use.thread)
        begins, positions = places.get(key, ([], []))
        at = max(taken.get(key, 0), bisect_left(begins, use.start_unix_ns - zero_ns - TOLERANCE_NS))
        inside = at < len(begins) and begins[at] <= use.end_unix_ns - zero_ns + TOLERANCE_NS
        if inside:
            taken[key] = at + 1
        matches.append((use, positions[at] if inside else -1))
    return matches
