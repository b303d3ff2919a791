"""Host waits: every call in which a thread is blocked until the GPU has done something.

In: calls, GPU work, steps. Out: the `waits` table, with idle time and source lines still empty. A synchronize waits
from its start to the completion of its targets; a blocking copy waits for the duration of its call minus the cost of
issuing it. The profiler's own synchronize at the end of the window is marked (`window_edge`) and never counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import StepSource, TextColumn, TraceTable
from tracelens.trace import cuda_api, event_records
from tracelens.trace.nesting import operations
from tracelens.trace.streams import distinct_streams
from tracelens.trace.tables import TraceRows, among

Column = npt.NDArray[Any]

KINDS = ("device", "stream", "event", "d2h", "h2d", "alloc")
SOURCES = ("mark", "sample", "clock", "forward", "stack", "none")
SYNCS = ("device_sync", "stream_sync", "event_sync")
SKEW_NS = 5_000
"""Work that ends this long after a call's end can still be what it waited for: so far host and GPU clocks differ."""
DEFAULT_ISSUE_NS = 5_000
"""Cost of issuing a copy where no other call of the trace shows it: that of a launch on a server."""
BEFORE = int(np.iinfo(np.int64).min)
"""When work was launched that was queued before the recording began."""
_NONE, _D2H, _H2D = -1, KINDS.index("d2h"), KINDS.index("h2d")
_PASSING = ("other", "event_query", "event_record")
"""Kinds that may stand between the copy and the synchronize of one `.item()`."""


def find(rows: TraceRows, calls: TraceTable, ops: TraceTable, source: StepSource) -> TraceTable:
    """All waits in order of start; `calls` and `ops` know their steps."""
    kind = np.full(len(calls), _NONE, dtype=np.int8)
    for sync, word in zip(SYNCS, ("device", "stream", "event"), strict=True):
        kind[among(calls["kind"], sync)] = KINDS.index(word)
    kind[among(calls["kind"], "alloc", "free")] = KINDS.index("alloc")
    copy = _finished_copies(calls, ops)
    for direction, copied in _after_copies(rows, calls, copy, ops).items():
        kind[copied] = KINDS.index(direction)
    blocking = _blocking_copies(calls, ops)
    kind = np.where(blocking != _NONE, blocking, kind)
    stream = _streams(calls, np.where((kind == _D2H) | (kind == _H2D), copy, -1), ops)
    waiting = np.flatnonzero(kind != _NONE)
    nothing = np.full(len(waiting), None, dtype=object)
    return TraceTable(
        {
            "call": waiting,
            "copy": copy[waiting],
            "api": calls["name"][waiting],
            "kind": TextColumn.coded(kind[waiting], KINDS),
            "thread": calls["thread"][waiting],
            "stream": stream[waiting],
            "start_ns": calls["start_ns"][waiting],
            "end_ns": calls["end_ns"][waiting],
            "wait_ns": _waited(calls, ops, stream, blocking != _NONE)[waiting],
            "gpu_idle_ns": np.zeros(len(waiting), dtype=np.int64),
            "step": calls["step"][waiting],
            "window_edge": waiting == _window_edge(calls, source),
            **dict.fromkeys(("path", "line", "function"), nothing),
            "location_source": TextColumn.coded(np.full(len(waiting), SOURCES.index("none")), SOURCES),
            "user_call": nothing,
        }
    )


def kinds_of_calls(waits: TraceTable) -> TextColumn:
    """The kind of each wait as the user's call has it: completing a copy to the GPU is part of that copy, `h2d`."""
    second = among(waits["kind"], "stream") & (waits["copy"] >= 0)
    kinds = np.where(second, KINDS.index("h2d"), waits["kind"].codes)
    return TextColumn.coded(kinds, KINDS)


def second_halves(waits: TraceTable) -> npt.NDArray[np.bool_]:
    """Which waits complete a copy that is a wait itself: the second half of one call of the user's."""
    return np.isin(waits["copy"], waits["call"])


def without_explicit_synchronizes(waits: TraceTable) -> TraceTable:
    """Clear `copy` of synchronizes that the user wrote explicitly after a copy to the GPU: they are not part of it.

    After a read a synchronize is always part of the read, because without it the value has not arrived.
    """
    asked = [str(call).endswith("synchronize") for call in waits["user_call"]]
    asked_for = among(waits["kind"], "stream") & np.array(asked, dtype=np.bool_)
    return waits.with_columns(copy=np.where(asked_for, -1, waits["copy"]))


def launch_times(calls: TraceTable, ops: TraceTable) -> Column:
    """When each operation was put on its stream.

    An operation without its call was queued before the window if the stream runs it before all work that has one;
    otherwise (graph replay, or a lost call) its own start is taken.
    """
    call, start = ops["call"], ops["start_ns"]
    linked = call >= 0
    _, group = distinct_streams(ops)
    first = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group[linked], start[linked])
    first[first == np.iinfo(np.int64).max] = BEFORE  # without launches the stream shows no beginning
    before = start < first[group]
    called = calls["start_ns"][call] if len(calls) else start
    return np.where(linked, called, np.where(before, BEFORE, start))


def _previous(calls: TraceTable) -> Column:
    """For each call the one before it on its thread that is not passing; -1 where there is none."""
    out = np.full(len(calls), -1, dtype=np.int64)
    order = np.argsort(calls["thread"], kind="stable")
    thread = calls["thread"][order]
    matters = ~among(calls["kind"], *_PASSING)[order]
    last = np.maximum.accumulate(np.where(matters, np.arange(len(order)), -1))
    before = np.concatenate(([-1], last[:-1])) if len(last) else last
    same = (before >= 0) & (thread[before] == thread)
    out[order[same]] = order[before[same]]
    return out


def _finished_copies(calls: TraceTable, ops: TraceTable) -> Column:
    """For each stream synchronize the copy whose second half it is: the call before it on its thread copies between
    host and GPU on the same stream (or the stream is not known), and was done when the synchronize returned."""
    out = np.full(len(calls), -1, dtype=np.int64)
    synchronizes = among(calls["kind"], "stream_sync")
    if not synchronizes.any():
        return out
    copy = _previous(calls)
    op, stream = calls["op"][copy], calls["stream"]
    syncs = np.flatnonzero(synchronizes & (copy >= 0) & (op >= 0))
    syncs = syncs[(stream[syncs] == -1) | (stream[syncs] == stream[copy[syncs]])]
    between = among(ops["direction"], "h2d", "d2h")[op[syncs]]
    returned = ops["end_ns"][op[syncs]] <= calls["end_ns"][syncs] + SKEW_NS
    syncs = syncs[between & returned]
    out[syncs] = copy[syncs]
    return out


def _after_copies(rows: TraceRows, calls: TraceTable, copy: Column, ops: TraceTable) -> dict[str, Column]:
    """Stream synchronizes with the kind of their copy: `.item()` and its like (d2h), a blocking `.to(device)` (h2d).

    A read makes every synchronize after it part of it: without that the value is not there. After an upload it is
    one for certain only inside the same framework operation.
    """
    completing = np.flatnonzero(copy >= 0)
    upload = among(ops["direction"], "h2d")[calls["op"][copy[completing]]]
    starts, thread = calls["start_ns"], calls["thread"][completing]
    inside = operations(rows, thread, starts[completing])
    same = (inside >= 0) & (inside == operations(rows, thread, starts[copy[completing]]))
    return {"d2h": completing[~upload], "h2d": completing[upload & same]}


def _blocking_copies(calls: TraceTable, ops: TraceTable) -> Column:
    """The kind d2h or h2d for copy calls that wait, none for all others."""
    out = np.full(len(calls), _NONE, dtype=np.int8)
    names = calls["name"].words
    synchronous = [name for name in names if cuda_api.copies_synchronously(str(name))]
    calling = np.flatnonzero(among(calls["kind"], "copy") & (calls["op"] >= 0))
    op = calls["op"][calling]
    done, end = ops["end_ns"][op], calls["end_ns"][calling]
    by_name = among(calls["name"], *synchronous)[calling]
    by_memory = among(ops["memory"], "pageable")[op]
    by_time = among(ops["memory"], "unknown")[op] & (end >= done)  # ROCm does not say what memory it was
    blocks = by_name | by_memory | by_time
    for direction, word in (("d2h", _D2H), ("h2d", _H2D)):
        out[calling[blocks & among(ops["direction"], direction)[op]]] = word
    return out


def _streams(calls: TraceTable, copy: Column, ops: TraceTable) -> Column:
    """The stream each call works on or waits for; filled in where it can only be one."""
    stream = calls["stream"].copy()
    unknown = among(calls["kind"], "stream_sync") & (stream == -1)
    if unknown.any():
        after_copy = unknown & (copy >= 0)
        stream[after_copy] = stream[copy[after_copy]]
        used = np.unique(ops["stream"])
        if len(used) == 1:
            stream[unknown & (stream == -1)] = used[0]
    stream[among(calls["kind"], "device_sync")] = -1
    return stream


def _waited(calls: TraceTable, ops: TraceTable, stream: Column, blocking: Column) -> Column:
    """How long each call stands still; `blocking`: which copies do."""
    start, end = calls["start_ns"], calls["end_ns"]
    waited = np.zeros(len(calls), dtype=np.int64)
    completion = _Completion(calls, ops)
    linked = bool((ops["call"] >= 0).any())
    for sync in SYNCS:
        rows = np.flatnonzero(among(calls["kind"], sync))
        targets = stream[rows] if sync == "stream_sync" else np.full(len(rows), -1)
        for target in np.unique(targets):
            some = rows[targets == target]
            known = sync == "device_sync" or target >= 0
            done = completion.launched(int(target), start[some]) if known else completion.ended(end[some])
            done = done if linked else end[some]  # nothing tells what the call waited for: it blocked, no more is known
            waited[some] = np.clip(done, start[some], end[some]) - start[some]
    named = calls["record"] != event_records.UNKNOWN
    for call in np.flatnonzero(among(calls["kind"], "event_sync") & named):
        waited[call] = _waited_for_record(calls, completion, int(call))
    copies = np.flatnonzero(among(calls["kind"], "copy"))
    waited[copies] = np.maximum(0, end[copies] - start[copies] - _issue_ns(calls, blocking))
    driver = np.flatnonzero(among(calls["kind"], "alloc", "free"))
    waited[driver] = end[driver] - start[driver]
    return waited


def _waited_for_record(calls: TraceTable, completion: _Completion, call: int) -> int:
    """For the work in front of the record that the recording named; for none where it is from before the trace."""
    record = int(calls["record"][call])
    if record == event_records.EARLIER:
        return 0
    start, end = int(calls["start_ns"][call]), int(calls["end_ns"][call])
    recorded = calls["start_ns"][record : record + 1]
    done = int(completion.launched(int(calls["stream"][record]), recorded)[0])
    return min(max(done, start), end) - start


def _issue_ns(calls: TraceTable, blocking: Column) -> int:
    """What issuing a copy costs: the median of copies that do not block, else the fastest copy or launch."""
    length = calls["end_ns"] - calls["start_ns"]
    copying = among(calls["kind"], "copy")
    free = copying & ~blocking & (calls["op"] >= 0)
    if np.count_nonzero(free) >= 3:
        return int(np.median(length[free]))
    launches = length[among(calls["kind"], "launch", "memset")]
    typical = int(np.median(launches)) if len(launches) else DEFAULT_ISSUE_NS
    copies = length[copying]
    return min(typical, int(copies.min())) if len(copies) else typical


class _Completion:
    """When the work that a synchronize waits for is complete."""

    def __init__(self, calls: TraceTable, ops: TraceTable) -> None:
        put = launch_times(calls, ops)
        order = np.argsort(put, kind="stable")
        self._launched, self._end = put[order], ops["end_ns"][order]
        self._stream = ops["stream"][order]
        self._sorted_ends = np.sort(self._end, kind="stable")  # almost in order, which a stable sort makes use of

    def launched(self, stream: int, before: Column) -> Column:
        """Completion of all work put on a stream (-1: on any) before each instant; that instant if there is none."""
        mine = np.ones(len(self._end), dtype=np.bool_) if stream < 0 else self._stream == stream
        return self._last(self._launched[mine], np.maximum.accumulate(self._end[mine]), before, before)

    def ended(self, returned: Column) -> Column:
        """Target unknown (events on CUDA 12.9 and later): the work whose end explains the return best."""
        nothing = np.zeros_like(returned)
        return self._last(self._sorted_ends, self._sorted_ends, returned + SKEW_NS, nothing)

    @staticmethod
    def _last(keys: Column, values: Column, at: Column, otherwise: Column) -> Column:
        if not len(keys):
            return otherwise
        position = np.searchsorted(keys, at) - 1
        return np.where(position >= 0, values[np.maximum(position, 0)], otherwise)


def _window_edge(calls: TraceTable, source: StepSource) -> int:
    """The device synchronize with which the profiler drains the GPU when it stops; -1 if the trace does not show it."""
    syncs = np.flatnonzero(among(calls["kind"], "device_sync"))
    launches = np.flatnonzero(among(calls["kind"], *cuda_api.STARTS_WORK))
    if not len(syncs) or not len(launches):
        return -1
    starts, last = calls["start_ns"], int(syncs[-1])
    after_work = starts[last] > starts[launches].max()
    # Stopped from outside, it drains from a thread of its own, perhaps within a step of the loop.
    thread = calls["thread"]
    foreign = not (thread[launches] == thread[last]).any()
    within_step = source != "none" and calls["step"][last] >= 0  # one step for the whole span says nothing
    return last if after_work and (foreign or not within_step) else -1
