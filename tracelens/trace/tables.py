"""The tables of API calls and GPU work, and the link between them.

In: a `Trace`. Out: `calls` and `ops` as `model.Tables` documents them, without steps (added once those are known),
plus the rows of other categories that later stages ask for by name. The link is the correlation id, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import TextColumn, Trace, TraceTable
from tracelens.trace import cuda_api
from tracelens.trace.columns import SYNC_KINDS, rows_among

Column = npt.NDArray[Any]

RUNTIME = ("cuda_runtime", "cuda_driver")
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
DIRECTIONS = ("", "h2d", "d2h", "d2d", "p2p")
MEMORY = ("", "pageable", "pinned", "unknown")
OP_KINDS = ("kernel", "copy", "memset", "collective")


@dataclass(frozen=True)
class TraceRows:
    """A Trace with the selections that every stage needs."""

    trace: Trace
    _found: dict[tuple[str, ...], Column] = field(default_factory=dict)

    def column(self, key: str) -> Column:
        return self.trace.columns[key]

    def in_categories(self, categories: tuple[str, ...]) -> Column:
        """Positions of the rows of some categories, in order of start."""
        if categories not in self._found:
            chosen = rows_among(self.column("category"), self.trace.categories, categories)
            self._found[categories] = np.flatnonzero(chosen)
        return self._found[categories]

    def named(self, rows: Column, matches: Callable[[str], bool]) -> Column:
        """Those of `rows` whose name matches; each distinct name is tried once."""
        codes = self.column("name")[rows]
        wanted = np.zeros(len(self.trace.names), dtype=np.bool_)
        for code in np.flatnonzero(np.bincount(codes)):
            wanted[code] = matches(self.trace.names[code])
        return rows[wanted[codes]]

    def names(self, rows: Column) -> list[str]:
        return [self.trace.names[code] for code in self.column("name")[rows]]


def among(column: TextColumn, *words: str) -> Column:
    """Which rows hold one of `words`: codes are compared, not texts."""
    return rows_among(column.codes, column.words, words)


def processes(rows: TraceRows) -> int:
    """How many processes made the API calls; a profiler records one, but files get merged."""
    pid = rows.column("pid")[rows.in_categories(RUNTIME)]
    return len(np.unique(pid)) if len(pid) and pid.min() != pid.max() else min(len(pid), 1)


def build(rows: TraceRows) -> tuple[TraceTable, TraceTable]:
    """`calls` and `ops`, linked, with `step` still -1."""
    call_rows, op_rows = rows.in_categories(RUNTIME), rows.in_categories(GPU)
    calls, ops = _calls(rows, call_rows), _ops(rows, op_rows)
    correlation = rows.column("correlation")[op_rows]
    call = _launching_call(calls, ops, correlation)
    if processes(rows) > 1:
        call = _nearest_call(calls, ops, correlation, call)
    linked = np.flatnonzero(call >= 0)
    first = np.full(len(calls), -1, dtype=np.int64)
    first[call[linked][::-1]] = linked[::-1]  # reversed, so that the earliest op of a call is written last
    stream = np.where(first >= 0, ops["stream"][first] if len(ops) else -1, -1)
    count = np.bincount(call[linked], minlength=len(calls))
    calls = calls.with_columns(op=first, ops=count, stream=stream)
    return _with_sync_targets(rows, calls), ops.with_columns(call=call)


def _calls(rows: TraceRows, selected: Column) -> TraceTable:
    codes, names = _recode(rows, selected)
    kinds = np.array([cuda_api.KINDS.index(cuda_api.kind(name)) for name in names], dtype=np.int8)
    return TraceTable(
        {
            "thread": rows.column("tid")[selected],
            "name": TextColumn.coded(codes, names),
            "kind": TextColumn.coded(kinds[codes], cuda_api.KINDS),
            "start_ns": rows.column("start_ns")[selected],
            "end_ns": rows.column("end_ns")[selected],
            "correlation": rows.column("correlation")[selected],
            **dict.fromkeys(("stream", "event", "op", "ops", "step"), _unknown(len(selected))),
        }
    )


def _ops(rows: TraceRows, selected: Column) -> TraceTable:
    codes, names = _recode(rows, selected)
    category = rows.column("category")[selected]
    is_copy, is_memset = (
        np.isin(category, [code for code, text in enumerate(rows.trace.categories) if text == word])
        for word in ("gpu_memcpy", "gpu_memset")
    )
    collective = np.array([cuda_api.is_collective(name) for name in names], dtype=np.bool_)
    kind = np.where(is_copy, 1, np.where(is_memset, 2, np.where(collective[codes] if len(codes) else False, 3, 0)))
    direction, memory = np.zeros(len(names), dtype=np.int8), np.zeros(len(names), dtype=np.int8)
    for code in np.unique(codes[is_copy]):
        direction[code] = DIRECTIONS.index(cuda_api.direction(names[code]))
        memory[code] = MEMORY.index(cuda_api.memory(names[code]))
    device, process = rows.column("device")[selected].astype(np.int64), rows.column("pid")[selected]
    return TraceTable(
        {
            "kind": TextColumn.coded(kind, OP_KINDS),
            "direction": TextColumn.coded(np.where(is_copy, direction[codes] if len(codes) else 0, 0), DIRECTIONS),
            "memory": TextColumn.coded(np.where(is_copy, memory[codes] if len(codes) else 0, 0), MEMORY),
            "name": TextColumn.coded(codes, names),
            "device": np.where(device >= 0, device, process),  # Kineto's pid of a GPU row is the device
            "stream": rows.column("stream")[selected].astype(np.int64),
            "start_ns": rows.column("start_ns")[selected],
            "end_ns": rows.column("end_ns")[selected],
            "bytes": rows.column("bytes")[selected],
            **dict.fromkeys(("call", "step"), _unknown(len(selected))),
        }
    )


def _unknown(count: int) -> Column:
    """-1 in every row, in no memory."""
    return np.broadcast_to(np.int64(-1), count)


def _recode(rows: TraceRows, selected: Column) -> tuple[Column, list[str]]:
    """Codes into the names that occur, so that a table carries only its own. Equal names get one code."""
    codes = rows.column("name")[selected]
    place: dict[str, int] = {}
    merged = np.zeros(len(rows.trace.names), dtype=np.int64)
    for code in np.flatnonzero(np.bincount(codes)):
        merged[code] = place.setdefault(rows.trace.names[code], len(place))
    return merged[codes], list(place)


def _launching_call(calls: TraceTable, ops: TraceTable, correlation: Column) -> Column:
    """Position of the call that launched each op, -1 where the trace has none."""
    if not len(calls) or not len(ops):
        return np.full(len(ops), -1, dtype=np.int64)
    starts_work = among(calls["kind"], *cuda_api.STARTS_WORK)
    keys = calls["correlation"]
    order = np.concatenate((np.flatnonzero(starts_work), np.flatnonzero(~starts_work)))
    order = order[np.argsort(keys[order], kind="stable")]  # of equal ids the one that can launch, then the earliest
    at = np.searchsorted(keys[order], correlation)
    candidate = order[np.minimum(at, len(order) - 1)]
    return np.where((keys[candidate] == correlation) & (correlation > 0), candidate, -1)


def _nearest_call(calls: TraceTable, ops: TraceTable, correlation: Column, otherwise: Column) -> Column:
    """Where several processes count their calls from 1: of the calls of that number the last one before the op ran."""
    launching = np.flatnonzero(among(calls["kind"], *cuda_api.STARTS_WORK))
    number = np.concatenate((calls["correlation"][launching], correlation))
    at = np.concatenate((calls["start_ns"][launching], ops["start_ns"]))
    order = np.lexsort((at, number))  # stable: of the same instant, the call comes first
    called = np.where(order < len(launching), np.arange(len(order)), -1)
    last = np.maximum.accumulate(called)
    same = (last >= 0) & (number[order] == number[order[last]])
    nearest = np.full(len(order), -1, dtype=np.int64)
    nearest[order[same]] = launching[order[last[same]]]
    found = nearest[len(launching) :]
    return np.where((found >= 0) & (otherwise >= 0), found, otherwise)


def _with_sync_targets(rows: TraceRows, calls: TraceTable) -> TraceTable:
    """From `cuda_sync` rows: which stream a call waits for, which event it waits for or recorded."""
    sync = rows.in_categories(("cuda_sync",))
    sync = sync[rows.column("correlation")[sync] > 0]
    if not len(sync) or not len(calls):
        return calls
    call = _first_position(calls["correlation"], rows.column("correlation")[sync])
    event_kinds = [SYNC_KINDS.index("Event Sync"), SYNC_KINDS.index("Stream Wait Event")]
    on_event = np.isin(rows.column("sync_kind")[sync], event_kinds)
    stream, event = calls["stream"].copy(), calls["event"].copy()
    waited = np.where(on_event & (rows.column("sync_kind")[sync] == 0), -1, rows.column("stream")[sync])
    known = call >= 0
    stream[call[known]] = np.where(stream[call[known]] >= 0, stream[call[known]], waited[known])
    event[call[known & on_event]] = rows.column("wait_event")[sync][known & on_event]
    record = _first_position(calls["correlation"], rows.column("wait_record")[sync])
    recorded = (record >= 0) & on_event & (rows.column("wait_record")[sync] > 0)
    event[record[recorded]] = rows.column("wait_event")[sync][recorded]
    stream[record[recorded]] = rows.column("wait_stream")[sync][recorded]
    stream[call[recorded & known]] = np.where(
        rows.column("sync_kind")[sync][recorded & known] == 0,
        rows.column("wait_stream")[sync][recorded & known],
        stream[call[recorded & known]],
    )
    return calls.with_columns(stream=stream, event=event)


def _first_position(values: Column, wanted: Column) -> Column:
    """Where each of `wanted` first occurs in `values`, which are some; -1 where it does not."""
    distinct, first = np.unique(values, return_index=True)
    at = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    return np.where(distinct[at] == wanted, first[at], -1)


def step_of(starts: Column, steps: TraceTable) -> Column:
    """Position of the step that contains each instant, -1 outside."""
    if not len(steps):
        return np.full(len(starts), -1, dtype=np.int64)
    position = np.searchsorted(steps["start_ns"], starts, side="right") - 1
    within = (position >= 0) & (starts < steps["end_ns"][np.maximum(position, 0)])
    return np.where(within, position, -1)
