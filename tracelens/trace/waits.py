"""Host waits: every call in which a thread stands still for the GPU.

In: calls, GPU work, steps. Out: the `waits` table, idle time and source lines still empty. A synchronize waits from
its start to the completion of its targets; a blocking copy waits for its call minus what issuing it costs. The
profiler's own drain at the end of the window is recognized and marked, never counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracelens.model import StepSource
from tracelens.trace import api
from tracelens.trace.nest import operations
from tracelens.trace.tables import Rows, categorical

Column = npt.NDArray[Any]

KINDS = ("device", "stream", "event", "d2h", "h2d", "alloc")
SOURCES = ("mark", "sample", "stack", "none")
SYNCS = ("device_sync", "stream_sync", "event_sync")
SKEW_NS = 5_000
"""Work that ends this long after a call's end can still be what it waited for: so far host and GPU clocks differ."""
DEFAULT_ISSUE_NS = 5_000
"""What issuing a copy costs where the trace has no other call to tell: the usual cost of a launch on a server."""
_PASSING = ("other", "event_query", "event_record")
"""Kinds that may stand between the copy and the synchronize of one `.item()`."""


def find(rows: Rows, calls: pd.DataFrame, ops: pd.DataFrame, source: StepSource) -> pd.DataFrame:
    """All waits in order of start; `calls` and `ops` know their steps."""
    kind = calls["kind"].astype(object).to_numpy()
    label = np.full(len(calls), "", dtype=object)
    for sync, word in zip(SYNCS, ("device", "stream", "event"), strict=True):
        label[kind == sync] = word
    label[np.isin(kind, ("alloc", "free"))] = "alloc"
    copy = _finished_copies(calls, kind, ops)
    for direction, copied in _after_copies(rows, calls, copy, ops).items():
        label[copied] = direction
    blocking = _blocking_copies(calls, kind, ops)
    label[blocking != ""] = blocking[blocking != ""]
    stream = _streams(calls, kind, np.where(np.isin(label, ("h2d", "d2h")), copy, -1), ops)
    known = calls.assign(
        call=np.arange(len(calls)),
        copy=copy,
        label=label,
        stream=stream,
        wait_ns=_waited(calls, kind, ops, stream),
        window_edge=np.arange(len(calls)) == _window_edge(calls, kind, source),
    )
    return _frame(known[label != ""].reset_index(drop=True))


def kinds_of_calls(waits: pd.DataFrame) -> pd.Series[str]:
    """The kind of each wait as the user's call has it: completing a copy to the GPU is part of that copy, `h2d`."""
    return waits["kind"].astype(str).where(~((waits["kind"] == "stream") & (waits["copy"] >= 0)), "h2d")


def second_halves(waits: pd.DataFrame) -> pd.Series[bool]:
    """Which waits complete a copy that is a wait itself: the second half of one call of the user's."""
    return waits["copy"].isin(waits["call"])


def without_asked(waits: pd.DataFrame) -> pd.DataFrame:
    """Take back `copy` of synchronizes that the user wrote by name behind a copy to the GPU: they are not part of it.
    Behind a read they are, whoever wrote them: without one the value is not there."""
    asked = (waits["kind"] == "stream") & waits["user_call"].astype(str).str.endswith("synchronize")
    return waits.assign(copy=waits["copy"].where(~asked, -1))


def _frame(found: pd.DataFrame) -> pd.DataFrame:
    nothing = pd.Series([None] * len(found), dtype=object)
    return pd.DataFrame(
        {
            "call": found["call"],
            "copy": found["copy"],
            "api": found["name"],
            "kind": categorical([KINDS.index(word) for word in found["label"]], KINDS),
            "thread": found["thread"],
            "stream": found["stream"],
            "start_ns": found["start_ns"],
            "end_ns": found["end_ns"],
            "wait_ns": found["wait_ns"],
            "gpu_idle_ns": np.zeros(len(found), dtype=np.int64),
            "step": found["step"],
            "window_edge": found["window_edge"],
            "path": nothing,
            "line": nothing,
            "function": nothing,
            "location_source": categorical(np.full(len(found), SOURCES.index("none")), SOURCES),
            "user_call": nothing,
        }
    )


def _previous(calls: pd.DataFrame, kind: Column) -> Column:
    """For each call the one before it on its thread that is not passing; -1 where there is none."""
    out = np.full(len(calls), -1, dtype=np.int64)
    order = np.lexsort((calls["start_ns"].to_numpy(), calls["thread"].to_numpy()))
    thread = calls["thread"].to_numpy()[order]
    matters = ~np.isin(kind[order], _PASSING)
    last = np.maximum.accumulate(np.where(matters, np.arange(len(order)), -1))
    before = np.concatenate(([-1], last[:-1])) if len(last) else last
    same = (before >= 0) & (thread[before] == thread)
    out[order[same]] = order[before[same]]
    return out


def _finished_copies(calls: pd.DataFrame, kind: Column, ops: pd.DataFrame) -> Column:
    """For each stream synchronize the copy whose second half it is: the call before it on its thread copies between
    host and GPU on the same stream (or the stream is not known), and was done when the synchronize returned."""
    out = np.full(len(calls), -1, dtype=np.int64)
    copy = _previous(calls, kind)
    op, stream = calls["op"].to_numpy()[copy], calls["stream"].to_numpy()
    found = np.flatnonzero((kind == "stream_sync") & (copy >= 0) & (op >= 0))
    found = found[(stream[found] == -1) | (stream[found] == stream[copy[found]])]
    between = ops["direction"].isin(("h2d", "d2h")).to_numpy()[op[found]]
    returned = ops["end_ns"].to_numpy()[op[found]] <= calls["end_ns"].to_numpy()[found] + SKEW_NS
    found = found[between & returned]
    out[found] = copy[found]
    return out


def _after_copies(rows: Rows, calls: pd.DataFrame, copy: Column, ops: pd.DataFrame) -> dict[str, Column]:
    """Stream synchronizes with the kind of their copy: `.item()` and its like (d2h), a blocking `.to(device)` (h2d).

    A read makes every synchronize after it part of it: without that the value is not there. After an upload it is
    one for certain only inside the same framework operation.
    """
    found = np.flatnonzero(copy >= 0)
    upload = (ops["direction"] == "h2d").to_numpy()[calls["op"].to_numpy()[copy[found]]]
    starts, thread = calls["start_ns"].to_numpy(), calls["thread"].to_numpy()[found]
    inside = operations(rows, thread, starts[found])
    same = (inside >= 0) & (inside == operations(rows, thread, starts[copy[found]]))
    return {"d2h": found[~upload], "h2d": found[upload & same]}


def _blocking_copies(calls: pd.DataFrame, kind: Column, ops: pd.DataFrame) -> Column:
    """ "d2h" or "h2d" for copy calls that wait, "" for all others."""
    out = np.full(len(calls), "", dtype=object)
    names = calls["name"].cat.categories
    synchronous = np.array([api.copies_synchronously(str(name)) for name in names], dtype=np.bool_)
    op = calls["op"].to_numpy()
    rows = np.flatnonzero((kind == "copy") & (op >= 0))
    done, end = ops["end_ns"].to_numpy()[op[rows]], calls["end_ns"].to_numpy()[rows]
    direction = ops["direction"].astype(object).to_numpy()[op[rows]]
    memory = ops["memory"].astype(object).to_numpy()[op[rows]]
    by_name = synchronous[calls["name"].cat.codes.to_numpy()[rows]] if len(rows) else np.zeros(0, dtype=np.bool_)
    by_memory = memory == "pageable"
    by_time = (memory == "unknown") & (end >= done)  # ROCm does not say what memory it was
    blocks = np.isin(direction, ("h2d", "d2h")) & (by_name | by_memory | by_time)
    out[rows[blocks]] = direction[blocks]
    return out


def _streams(calls: pd.DataFrame, kind: Column, copy: Column, ops: pd.DataFrame) -> Column:
    """The stream each call works on or waits for; filled in where it can only be one."""
    stream = calls["stream"].to_numpy().copy()
    unknown = (kind == "stream_sync") & (stream == -1)
    if unknown.any():
        after_copy = unknown & (copy >= 0)
        stream[after_copy] = stream[copy[after_copy]]
        used = np.unique(ops["stream"].to_numpy())
        if len(used) == 1:
            stream[unknown & (stream == -1)] = used[0]
    stream[kind == "device_sync"] = -1
    return stream


def _waited(calls: pd.DataFrame, kind: Column, ops: pd.DataFrame, stream: Column) -> Column:
    start, end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    waited = np.zeros(len(calls), dtype=np.int64)
    completion = _Completion(calls, ops)
    for sync in SYNCS:
        rows = np.flatnonzero(kind == sync)
        targets = stream[rows] if sync == "stream_sync" else np.full(len(rows), -1)
        for target in np.unique(targets):
            some = rows[targets == target]
            known = sync == "device_sync" or target >= 0
            done = completion.launched(int(target), start[some]) if known else completion.ended(end[some])
            done = done if len(ops) else end[some]  # GPU work was not recorded: the call blocked, no more is known
            waited[some] = np.clip(done, start[some], end[some]) - start[some]
    copies = np.flatnonzero(kind == "copy")
    waited[copies] = np.maximum(0, end[copies] - start[copies] - _issue_ns(calls, kind, ops))
    driver = np.flatnonzero(np.isin(kind, ("alloc", "free")))
    waited[driver] = end[driver] - start[driver]
    return waited


def _issue_ns(calls: pd.DataFrame, kind: Column, ops: pd.DataFrame) -> int:
    """What issuing a copy costs: the median of copies that do not block, else the fastest copy or launch."""
    length = calls["end_ns"].to_numpy() - calls["start_ns"].to_numpy()
    blocking = _blocking_copies(calls, kind, ops) != ""
    free = (kind == "copy") & ~blocking & (calls["op"].to_numpy() >= 0)
    if np.count_nonzero(free) >= 3:
        return int(np.median(length[free]))
    launches = length[np.isin(kind, ("launch", "memset"))]
    typical = int(np.median(launches)) if len(launches) else DEFAULT_ISSUE_NS
    copies = length[kind == "copy"]
    return min(typical, int(copies.min())) if len(copies) else typical


class _Completion:
    """When the work that a synchronize waits for is complete."""

    def __init__(self, calls: pd.DataFrame, ops: pd.DataFrame) -> None:
        launched = _launched(calls, ops)
        order = np.argsort(launched, kind="stable")
        self._launched, self._end = launched[order], ops["end_ns"].to_numpy()[order]
        self._stream = ops["stream"].to_numpy()[order]
        self._sorted_ends = np.sort(self._end)

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


def _launched(calls: pd.DataFrame, ops: pd.DataFrame) -> Column:
    """When each operation was put on its stream. Work without its call was there before the window if the stream does
    it before all work that has one; else (replayed, or its call was lost) it counts from its own start."""
    call, start = ops["call"].to_numpy(), ops["start_ns"].to_numpy()
    linked = call >= 0
    group = ops.groupby(["device", "stream"], sort=False).ngroup().to_numpy()
    first = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, group[linked], start[linked])
    first[first == np.iinfo(np.int64).max] = np.iinfo(np.int64).min  # a stream without launches tells nothing
    before = start < first[group]
    called = calls["start_ns"].to_numpy()[call] if len(calls) else start
    return np.where(linked, called, np.where(before, np.iinfo(np.int64).min, start))


def _window_edge(calls: pd.DataFrame, kind: Column, source: StepSource) -> int:
    """The device synchronize with which the profiler drains the GPU when it stops; -1 if the trace does not show it."""
    syncs = np.flatnonzero(kind == "device_sync")
    launches = np.flatnonzero(np.isin(kind, api.STARTS_WORK))
    if not len(syncs) or not len(launches):
        return -1
    starts, last = calls["start_ns"].to_numpy(), int(syncs[-1])
    after_work = starts[last] > starts[launches].max()
    # Stopped from outside, it drains from a thread of its own, perhaps within a step of the loop.
    foreign = not np.isin(calls["thread"].to_numpy()[last], calls["thread"].to_numpy()[launches])
    within_step = source != "none" and calls["step"].to_numpy()[last] >= 0  # one step for the whole span says nothing
    return last if after_work and (foreign or not within_step) else -1
