"""The tables of API calls and GPU work, and the link between them.

In: a `Trace`. Out: `calls` and `ops` as `model.Tables` documents them, without steps (added once those are known),
plus the rows of other categories that later stages ask for by name. The link is the correlation id, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from tracelens.model import Trace
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


def categorical(codes: npt.ArrayLike, words: Iterable[str]) -> pd.Categorical:
    return pd.Categorical.from_codes(np.asarray(codes), categories=pd.Index(list(words), dtype=object))


def among(column: pd.Series[Any], *words: str) -> Column:
    """Which rows of a column that `categorical` made hold one of `words`: codes are compared, not texts."""
    return rows_among(codes(column), cast(pd.CategoricalDtype, column.dtype).categories, words)


def codes(column: pd.Series[Any]) -> Column:
    """Of a column that `categorical` made: positions in its words."""
    return np.asarray(cast(pd.Categorical, column.array).codes)


def processes(rows: TraceRows) -> int:
    """How many processes made the API calls; a profiler records one, but files get merged."""
    pid = rows.column("pid")[rows.in_categories(RUNTIME)]
    return len(np.unique(pid)) if len(pid) and pid.min() != pid.max() else min(len(pid), 1)


def build(rows: TraceRows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`calls` and `ops`, linked, with `step` still -1."""
    call_rows, op_rows = rows.in_categories(RUNTIME), rows.in_categories(GPU)
    calls, ops = _calls(rows, call_rows), _ops(rows, op_rows)
    correlation = rows.column("correlation")[op_rows]
    call = _launching_call(calls, ops, correlation)
    if processes(rows) > 1:
        call = _nearest_call(calls, ops, correlation, call)
    ops["call"] = call
    linked = np.flatnonzero(call >= 0)
    first = np.full(len(calls), -1, dtype=np.int64)
    first[call[linked][::-1]] = linked[::-1]  # reversed, so that the earliest op of a call is written last
    calls["op"], calls["ops"] = first, np.bincount(call[linked], minlength=len(calls))
    stream = np.where(first >= 0, ops["stream"].to_numpy()[first] if len(ops) else -1, -1)
    calls["stream"] = stream
    _add_sync_targets(rows, calls)
    return calls, ops


def _calls(rows: TraceRows, selected: Column) -> pd.DataFrame:
    codes, names = _recode(rows, selected)
    kinds = np.array([cuda_api.KINDS.index(cuda_api.kind(name)) for name in names], dtype=np.int8)
    return pd.DataFrame(
        {
            "thread": rows.column("tid")[selected],
            "name": categorical(codes, names),
            "kind": categorical(kinds[codes], cuda_api.KINDS),
            "start_ns": rows.column("start_ns")[selected],
            "end_ns": rows.column("end_ns")[selected],
            "correlation": rows.column("correlation")[selected],
            **dict.fromkeys(("stream", "event", "op", "ops", "step"), _unknown(len(selected))),
        },
        copy=False,
    )


def _ops(rows: TraceRows, selected: Column) -> pd.DataFrame:
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
    return pd.DataFrame(
        {
            "kind": categorical(kind, OP_KINDS),
            "direction": categorical(np.where(is_copy, direction[codes] if len(codes) else 0, 0), DIRECTIONS),
            "memory": categorical(np.where(is_copy, memory[codes] if len(codes) else 0, 0), MEMORY),
            "name": categorical(codes, names),
            "device": np.where(device >= 0, device, process),  # Kineto's pid of a GPU row is the device
            "stream": rows.column("stream")[selected].astype(np.int64),
            "start_ns": rows.column("start_ns")[selected],
            "end_ns": rows.column("end_ns")[selected],
            "bytes": rows.column("bytes")[selected],
            **dict.fromkeys(("call", "step"), _unknown(len(selected))),
        },
        copy=False,
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


def _launching_call(calls: pd.DataFrame, ops: pd.DataFrame, correlation: Column) -> Column:
    """Position of the call that launched each op, -1 where the trace has none."""
    if not len(calls) or not len(ops):
        return np.full(len(ops), -1, dtype=np.int64)
    starts_work = among(calls["kind"], *cuda_api.STARTS_WORK)
    keys = calls["correlation"].to_numpy()
    order = np.concatenate((np.flatnonzero(starts_work), np.flatnonzero(~starts_work)))
    order = order[np.argsort(keys[order], kind="stable")]  # of equal ids the one that can launch, then the earliest
    at = np.searchsorted(keys[order], correlation)
    candidate = order[np.minimum(at, len(order) - 1)]
    return np.where((keys[candidate] == correlation) & (correlation > 0), candidate, -1)


def _nearest_call(calls: pd.DataFrame, ops: pd.DataFrame, correlation: Column, otherwise: Column) -> Column:
    """Where several processes count their calls from 1: of the calls of that number the last one before the op ran."""
    launching = np.flatnonzero(among(calls["kind"], *cuda_api.STARTS_WORK))
    called = pd.DataFrame(
        {
            "at": calls["start_ns"].to_numpy()[launching],
            "correlation": calls["correlation"].to_numpy()[launching],
            "call": launching,
        }
    )
    ran = pd.DataFrame({"at": ops["start_ns"].to_numpy(), "correlation": correlation})
    nearest = pd.merge_asof(ran, called.sort_values("at", kind="stable"), on="at", by="correlation")["call"]
    return np.where(nearest.notna().to_numpy() & (otherwise >= 0), nearest.fillna(-1).to_numpy(), otherwise).astype(
        np.int64
    )


def _add_sync_targets(rows: TraceRows, calls: pd.DataFrame) -> None:
    """From `cuda_sync` rows: which stream a call waits for, which event it waits for or recorded."""
    sync = rows.in_categories(("cuda_sync",))
    sync = sync[rows.column("correlation")[sync] > 0]
    if not len(sync) or not len(calls):
        return
    position = pd.Series(np.arange(len(calls)), index=calls["correlation"].to_numpy())
    position = position[~position.index.duplicated()]
    call = position.reindex(rows.column("correlation")[sync]).fillna(-1).to_numpy().astype(np.int64)
    event_kinds = [SYNC_KINDS.index("Event Sync"), SYNC_KINDS.index("Stream Wait Event")]
    on_event = np.isin(rows.column("sync_kind")[sync], event_kinds)
    stream, event = calls["stream"].to_numpy().copy(), calls["event"].to_numpy().copy()
    waited = np.where(on_event & (rows.column("sync_kind")[sync] == 0), -1, rows.column("stream")[sync])
    known = call >= 0
    stream[call[known]] = np.where(stream[call[known]] >= 0, stream[call[known]], waited[known])
    event[call[known & on_event]] = rows.column("wait_event")[sync][known & on_event]
    record = position.reindex(rows.column("wait_record")[sync]).fillna(-1).to_numpy().astype(np.int64)
    recorded = (record >= 0) & on_event & (rows.column("wait_record")[sync] > 0)
    event[record[recorded]] = rows.column("wait_event")[sync][recorded]
    stream[record[recorded]] = rows.column("wait_stream")[sync][recorded]
    stream[call[recorded & known]] = np.where(
        rows.column("sync_kind")[sync][recorded & known] == 0,
        rows.column("wait_stream")[sync][recorded & known],
        stream[call[recorded & known]],
    )
    calls["stream"], calls["event"] = stream, event


def step_of(starts: Column, steps: pd.DataFrame) -> Column:
    """Position of the step that contains each instant, -1 outside."""
    if not len(steps):
        return np.full(len(starts), -1, dtype=np.int64)
    position = np.searchsorted(steps["start_ns"].to_numpy(), starts, side="right") - 1
    within = (position >= 0) & (starts < steps["end_ns"].to_numpy()[np.maximum(position, 0)])
    return np.where(within, position, -1)
