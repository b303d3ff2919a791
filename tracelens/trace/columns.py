"""Batches of events to columns: numpy arrays of equal length, ordered by start, without duplicates.

Rows without a usable time are counted and left out. Names and categories become integer codes, in one vocabulary for
all torch versions and vendors.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.messages import say
from tracelens.trace import begin_end_pairs
from tracelens.trace.event_decoder import ARGUMENTS, NOTHING, UNKNOWN_ID, EventBatch, EventColumns, Values
from tracelens.trace.json_numbers import ids, integers, nanoseconds, streams
from tracelens.trace.load_notes import LoadNotes

Column = npt.NDArray[Any]

SYNC_KINDS = ("Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
"""Values of the column `sync_kind`, by position."""

CATEGORIES = {
    "operator": "cpu_op",
    "runtime": "cuda_runtime",
    "driver": "cuda_driver",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "hip_runtime": "cuda_runtime",
    "xpu_runtime": "cuda_runtime",
    "xpu_driver": "cuda_driver",
    "xpu_sync": "cuda_sync",
    "mtia_runtime": "cuda_runtime",
    "mtia_ccp_events": "kernel",
    "privateuse1_runtime": "cuda_runtime",
    "privateuse1_driver": "cuda_driver",
}
"""Category names of other versions and vendors, lower case, to the current CUDA ones, which all other modules use."""

WITH_STREAM = ("cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
"""Categories whose `stream` argument is a GPU stream; Triton's CPU rows carry one that is not."""

MOST_CATEGORIES = 1000
"""Kineto has about thirty. The limit keeps category codes within the column's 16 bits."""
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), 8232, 8233), " ")
_SYNC_CODES = {kind: position for position, kind in enumerate(SYNC_KINDS)}


def _sync_kinds(values: Values) -> Column:
    return np.array([_SYNC_CODES.get(value, UNKNOWN_ID) for value in values], dtype=np.int8)


_ARGUMENTS: dict[str, tuple[Callable[[Values], Column], tuple[str, ...]]] = {
    "stream": (streams, ("stream",)),
    "device": (streams, ("device",)),
    "correlation": (ids, ("correlation",)),
    "external_id": (ids, ("external_id", "external_id_2021")),
    "bytes": (integers, ("bytes", "bytes_2021", "size")),
    "sequence": (integers, ("sequence",)),
    "sync_kind": (_sync_kinds, ("sync_kind",)),
    "wait_stream": (streams, ("wait_stream",)),
    "wait_event": (integers, ("wait_event",)),
    "wait_record": (ids, ("wait_record",)),
    "graph": (integers, ("graph",)),
}
"""Columns made of arguments: how, and the spellings in which they come."""


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """What a `ColumnBuilder` took, to be added to another one."""

    spans: dict[str, Column]
    halves: dict[str, Column]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    has_shapes: bool


class ColumnBuilder:
    """Takes batches, gives one set of columns; names and categories are coded across batches."""

    def __init__(self, notes: LoadNotes) -> None:
        self.has_shapes = False
        self._notes = notes
        self._spans: list[dict[str, Column]] = []
        self._halves: list[dict[str, Column]] = []
        self._names = _NameCodes()
        self._categories = _CategoryCodes()

    def add(self, batch: EventBatch) -> None:
        """Keep complete events, and the halves of pairs until all are there."""
        if len(batch.spans):
            self._spans.append(self._complete(batch.spans))
        if len(batch.halves):
            self._halves.append(self._half(batch.halves, batch.begins))

    def part(self) -> ColumnPart:
        """What was added, in its order; this builder is not used any more."""
        spans, halves = (_concatenated(rows) if rows else {} for rows in (self._spans, self._halves))
        return ColumnPart(spans, halves, self.names(), self.categories(), self.has_shapes)

    def join(self, part: ColumnPart) -> None:
        """As if what the part holds were added here."""
        self.has_shapes = self.has_shapes or part.has_shapes
        name = np.array([self._names[text] for text in part.names], dtype=np.int32)
        category = np.array([self._categories[text] for text in part.categories], dtype=np.int16)
        for rows, own in ((part.spans, self._spans), (part.halves, self._halves)):
            if rows:
                own.append({**rows, "name": name[rows["name"]], "category": category[rows["category"]]})

    def names(self) -> tuple[str, ...]:
        return tuple(self._names.clean)

    def categories(self) -> tuple[str, ...]:
        return tuple(self._categories.clean)

    def columns(self) -> dict[str, Column]:
        """All parts joined, ordered by start, longer rows first (parents before children), duplicates removed."""
        if self._halves:
            complete, lonely = begin_end_pairs.join_pairs(_concatenated(self._halves))
            self._notes.drop(say("begin or end without duration"), lonely)
            self._spans.append(complete)
        if not self._spans:
            return {}
        columns = _ordered(self._spans)
        if "stream" in columns:
            columns["stream"][~self._with_stream(columns["category"])] = UNKNOWN_ID
        repeated = self._duplicates(columns)
        if len(repeated):
            self._notes.drop(say("duplicate event"), len(repeated))
            columns = {key: np.delete(column, repeated) for key, column in columns.items()}
        return _with_absent(columns)

    def _complete(self, rows: EventColumns) -> dict[str, Column]:
        start, known = nanoseconds(rows.ts)
        length, measured = nanoseconds(rows.dur)
        good = known & measured & (length >= 0)
        part = {"start_ns": start, "end_ns": start + length, **self._fields(rows)}
        if good.all():
            return part
        self._notes.drop(say("no timestamp"), int(np.count_nonzero(~known)))
        self._notes.drop(say("no duration"), int(np.count_nonzero(known & ~measured)))
        self._notes.drop(say("negative duration"), int(np.count_nonzero(known & measured & (length < 0))))
        return {key: column[good] for key, column in part.items()}

    def _half(self, rows: EventColumns, begins: tuple[bool, ...]) -> dict[str, Column]:
        start, known = nanoseconds(rows.ts)
        self._notes.drop(say("no timestamp"), int(np.count_nonzero(~known)))
        part = {"start_ns": start, "end_ns": start, **self._fields(rows), begin_end_pairs.BEGINS: np.array(begins)}
        return {key: column[known] for key, column in part.items()}

    def _fields(self, rows: EventColumns) -> dict[str, Column]:
        count = len(rows)
        category = np.fromiter(map(self._categories.__getitem__, rows.cat), dtype=np.int16, count=count)
        name = np.fromiter(map(self._names.__getitem__, rows.name), dtype=np.int32, count=count)
        threads = {"pid": integers(rows.pid), "tid": integers(rows.tid)}
        args = dict(zip(ARGUMENTS, rows.args, strict=True))
        self.has_shapes = self.has_shapes or _any_shapes(args)
        return {"category": category, "name": name, **threads, **_arguments(args)}

    def _with_stream(self, category: Column) -> npt.NDArray[np.bool_]:
        return rows_among(category, self.categories(), WITH_STREAM)

    def _duplicates(self, columns: dict[str, Column]) -> Column:
        """Rows of GPU and API categories that repeat another in every respect; work must not be counted twice."""
        start, end = columns["start_ns"], columns["end_ns"]
        again = (start[1:] == start[:-1]) & (end[1:] == end[:-1])  # equal rows are neighbors in this order
        near = np.zeros(len(start), dtype=np.bool_)
        near[1:] |= again
        near[:-1] |= again
        rows = np.flatnonzero(near)
        rows = rows[self._with_stream(columns["category"][rows])]
        keys = [
            columns[key][rows] for key in ("correlation", "tid", "pid", "name", "end_ns", "start_ns") if key in columns
        ]
        order = np.lexsort(keys)
        same = np.ones(max(len(rows) - 1, 0), dtype=np.bool_)
        for key in keys:
            same &= key[order][1:] == key[order][:-1]
        return rows[order[1:][same]]


class _NameCodes(dict[Any, int]):
    """Raw name to code. Names are shown on terminals and in pages, so `clean` has no control characters."""

    def __init__(self) -> None:
        super().__init__()
        self.clean: dict[str, int] = {}

    def __missing__(self, raw: Any) -> int:
        text = "" if raw is None else str(raw)
        text = text if text.isprintable() else text.translate(_CONTROLS)
        self[raw] = self.clean.setdefault(text, len(self.clean))
        return self[raw]


class _CategoryCodes(dict[Any, int]):
    """Raw category to code; `clean` has today's names."""

    def __init__(self) -> None:
        super().__init__()
        self.clean: dict[str, int] = {}

    def __missing__(self, raw: Any) -> int:
        text = canonical_category(raw) if len(self.clean) < MOST_CATEGORIES else "other"
        self[raw] = self.clean.setdefault(text, len(self.clean))
        return self[raw]


def canonical_category(category: str | None) -> str:
    """Today's name of a category."""
    text = (category or "").lower()
    return CATEGORIES.get(text, text)


def rows_among(codes: Column, words: Iterable[str], wanted: Container[str]) -> npt.NDArray[np.bool_]:
    """Which rows hold the code of a wanted word. Few codes, so that comparing them is much faster than looking up."""
    out = np.zeros(len(codes), dtype=np.bool_)
    for code, word in enumerate(words):
        if word in wanted:
            out |= codes == code
    return out


def _any_shapes(args: dict[str, Values]) -> bool:
    return any(args[key].count(NOTHING) < len(args[key]) for key in ("shapes", "shapes_2021"))


def _arguments(args: dict[str, Values]) -> dict[str, Column]:
    """The columns that some row has a value for: most batches have no copy, no synchronization row and no graph."""
    return {
        key: column
        for key, (read, spellings) in _ARGUMENTS.items()
        if (column := _first_known([args[spelling] for spelling in spellings], read)) is not None
    }


def _first_known(spellings: list[Values], read: Callable[[Values], Column]) -> Column | None:
    out: Column | None = None
    for values in spellings:
        if values[0] == UNKNOWN_ID and values.count(UNKNOWN_ID) == len(values):
            continue
        column = read(values)
        out = column if out is None else np.where(out == UNKNOWN_ID, column, out)
    return out


def _concatenated(parts: list[dict[str, Column]]) -> dict[str, Column]:
    """One set of columns."""
    joined = _Joined(parts)
    return {key: joined.column(key).copy() for key in joined.keys}


def _ordered(parts: list[dict[str, Column]]) -> dict[str, Column]:
    """One set of columns, ordered by start, longer rows first."""
    joined = _Joined(parts)
    start, end = joined.column("start_ns").copy(), joined.column("end_ns")
    order = _by_start(start, end)
    columns = {"start_ns": start[order], "end_ns": end[order]}
    del start
    return columns | {key: joined.column(key)[order] for key in joined.keys if key not in columns}


class _Joined:
    """The columns of several parts, one at a time and all in the same memory, valid until the next one; the parts are
    freed column by column, so that little is in memory twice."""

    def __init__(self, parts: list[dict[str, Column]]) -> None:
        self.keys = [*dict.fromkeys(chain.from_iterable(parts))]
        self._parts = parts
        self._counts = [len(part["start_ns"]) for part in parts]
        self._memory = np.empty(sum(self._counts), dtype=np.int64)

    def column(self, key: str) -> Column:
        width = max((part[key].dtype for part in self._parts if key in part), key=lambda kind: kind.itemsize)
        out: Column = self._memory.view(width)[: len(self._memory)]
        end = 0
        for part, count in zip(self._parts, self._counts, strict=True):
            column = part.pop(key, None)
            out[end : end + count] = UNKNOWN_ID if column is None else column
            end += count
        return out


def _with_absent(columns: dict[str, Column]) -> dict[str, Column]:
    """Adds the columns that no row has a value for, as broadcast views that take no memory."""
    count = len(columns["start_ns"])
    absent = {
        key: np.broadcast_to((np.int32 if read is streams else np.int64)(UNKNOWN_ID), count)
        for key, (read, _) in _ARGUMENTS.items()
    }
    return {**absent, **columns}


def _by_start(start: Column, end: Column) -> Column:
    """As `lexsort((-end, start))` orders; most starts are distinct, so only ties look at the end."""
    order = np.argsort(start, kind="stable")
    ordered = start[order]
    tie = ordered[1:] == ordered[:-1]
    tied = np.zeros(len(order), dtype=np.bool_)
    tied[1:] |= tie
    tied[:-1] |= tie
    places = np.flatnonzero(tied)
    rows = order[places]
    order[places] = rows[np.lexsort((-end[rows], start[rows]))]
    return order
