"""Events to columns: batches of decoded events in, numpy arrays of equal length out.

All times become integer nanoseconds here: exact where the file's digits are (integers, text, doubles below
`EXACT_FROM`). Rows without a usable time are counted, not kept. Past this module there are no event objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracelens.trace.events import AnyEvent, Args
from tracelens.trace.notes import Notes

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
"""Old and foreign category names, lower case, to today's CUDA ones: one vocabulary past this module."""

WITH_STREAM = ("cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "cuda_sync")
"""Categories whose `stream` argument is a GPU stream; Triton's CPU rows carry one that is not."""

UNKNOWN_ID = -1
LARGEST_STREAM = 2**31 - 1
"""Streams and devices above are Kineto's way (4294967295) to say "none"."""
LARGEST_NS = 2**62
MOST_CATEGORIES = 1000
"""Kineto has about thirty; a file with more is hostile, and the code must fit its column."""
_DIGITS = re.compile(r"(\d{1,18})\D*$")
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160), 8232, 8233), " ")
_NO_ARGS = Args()


class ColumnBuilder:
    """Takes batches, gives one set of columns; names and categories are coded across batches."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._parts: list[dict[str, Column]] = []
        self._names = _NameCodes()
        self._categories: dict[str, int] = {}

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Keep the complete ("X") events of a batch."""
        spans = [event for event in events if event.ph == "X"]
        if len(spans) != len(events):
            self._other(events)
        if spans:
            self._parts.append(self._part(spans))

    def names(self) -> tuple[str, ...]:
        return tuple(self._names.clean)

    def categories(self) -> tuple[str, ...]:
        return tuple(self._categories)

    def columns(self) -> dict[str, Column]:
        """All parts joined, ordered by start, longer rows first (parents before children), duplicates removed."""
        if not self._parts:
            return {}
        joined = {key: np.concatenate([part[key] for part in self._parts]) for key in self._parts[0]}
        self._parts.clear()
        order = np.lexsort((-joined["end_ns"], joined["start_ns"]))
        joined = {key: column[order] for key, column in joined.items()}
        keep = ~self._duplicates(joined)
        self._notes.drop("duplicate event", int(np.count_nonzero(~keep)))
        return joined if keep.all() else {key: column[keep] for key, column in joined.items()}

    def _other(self, events: Sequence[AnyEvent]) -> None:
        unpaired = sum(event.ph in ("B", "E") for event in events)
        self._notes.drop("begin or end without duration", unpaired)

    def _part(self, spans: list[AnyEvent]) -> dict[str, Column]:
        start, known = nanoseconds([event.ts for event in spans])
        length, measured = nanoseconds([event.dur for event in spans])
        self._notes.drop("no timestamp", int(np.count_nonzero(~known)))
        self._notes.drop("no duration", int(np.count_nonzero(known & ~measured)))
        self._notes.drop("negative duration", int(np.count_nonzero(known & measured & (length < 0))))
        good = known & measured & (length >= 0)
        part = {"start_ns": start, "end_ns": start + length, **self._codes(spans), **_ids(spans), **_arguments(spans)}
        self._forget_foreign_streams(part)
        return part if good.all() else {key: column[good] for key, column in part.items()}

    def _codes(self, spans: list[AnyEvent]) -> dict[str, Column]:
        names, categories = self._names, self._categories
        name = np.array([names[event.name] for event in spans], dtype=np.int32)
        texts = [event.cat for event in spans]
        code = {text: categories.setdefault(self._category(text), len(categories)) for text in dict.fromkeys(texts)}
        return {"category": np.array([code[text] for text in texts], dtype=np.int16), "name": name}

    def _category(self, text: str | None) -> str:
        name = canonical(text)
        return name if len(self._categories) < MOST_CATEGORIES else "other"

    def _forget_foreign_streams(self, part: dict[str, Column]) -> None:
        ours = [code for text, code in self._categories.items() if text in WITH_STREAM]
        part["stream"][~np.isin(part["category"], ours)] = UNKNOWN_ID

    def _duplicates(self, columns: dict[str, Column]) -> npt.NDArray[np.bool_]:
        """Rows of GPU and API categories that repeat another in every respect; twice counted work would be wrong."""
        counted = [code for text, code in self._categories.items() if text in WITH_STREAM]
        rows = np.flatnonzero(np.isin(columns["category"], counted))
        keys = [columns[key][rows] for key in ("correlation", "tid", "pid", "name", "end_ns", "start_ns")]
        order = np.lexsort(keys)
        same = np.ones(max(len(rows) - 1, 0), dtype=np.bool_)
        for key in keys:
            ordered = key[order]
            same &= ordered[1:] == ordered[:-1]
        out = np.zeros(len(columns["start_ns"]), dtype=np.bool_)
        out[rows[order[1:][same]]] = True
        return out


class _NameCodes(dict[Any, int]):
    """Raw name to code. Names are shown on terminals and in pages, so `clean` has no control characters."""

    def __init__(self) -> None:
        super().__init__()
        self.clean: dict[str, int] = {}

    def __missing__(self, raw: Any) -> int:
        text = ("" if raw is None else str(raw)).translate(_CONTROLS)
        self[raw] = self.clean.setdefault(text, len(self.clean))
        return self[raw]


def canonical(category: str | None) -> str:
    """Today's name of a category."""
    text = (category or "").lower()
    return CATEGORIES.get(text, text)


def nanoseconds(values: Sequence[Any]) -> tuple[Column, npt.NDArray[np.bool_]]:
    """Microseconds (int, double, text or raw digits) as integer ns, and which of them are numbers."""
    if values and isinstance(values[0], msgspec.Raw):
        return _from_text([bytes(value) for value in values])
    if any(type(value) is str for value in values):
        return _from_text([str(value).encode() for value in values])
    try:
        micro = np.array(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        return _from_text([str(value).encode() for value in values])
    known = np.isfinite(micro) & (np.abs(micro) < LARGEST_NS // 1000)
    micro = np.where(known, micro, 0.0)
    whole = np.floor(micro)  # apart from its fraction, or the product would be rounded twice
    return whole.astype(np.int64) * 1000 + np.rint((micro - whole) * 1000).astype(np.int64), known


def _from_text(texts: list[bytes]) -> tuple[Column, npt.NDArray[np.bool_]]:
    """Exact: the digits before and after the point, as integers."""
    array = np.array(texts, dtype=np.bytes_)
    width = array.dtype.itemsize
    digits = array.view(np.uint8).reshape(len(texts), width)
    point = np.where((digits == ord(".")).any(axis=1), (digits == ord(".")).argmax(axis=1), np.char.str_len(array))
    plain = ((digits >= ord("0")) & (digits <= ord("9"))) | (digits == 0) | (digits == ord("."))
    regular = plain.all(axis=1) & (point > 0) & (point <= 16) & ((digits == ord(".")).sum(axis=1) <= 1)
    total = np.zeros(len(texts), dtype=np.int64)
    for column in range(min(width, 16 + 1 + 4)):  # 16 digits of whole us, the point, three digits and one to round by
        place = point + 2 - column + (column > point)
        digit = digits[:, column].astype(np.int64) - ord("0")
        used = (digit >= 0) & (digit <= 9) & (place >= -1) & regular
        step = np.where(place >= 0, digit * 10 ** np.maximum(place, 0), digit >= 5)
        total += np.where(used, step, 0)
    known = regular & (total >= 0) & (total < LARGEST_NS)  # what is larger has wrapped around
    for row in np.flatnonzero(~regular):
        total[row], known[row] = _one_text(texts[row])
    return total, known


def _one_text(text: bytes) -> tuple[int, bool]:
    try:
        value = Decimal(text.decode("utf-8", "replace").strip('"'))
        if not value.is_finite() or abs(value) >= LARGEST_NS // 1000:
            return 0, False
        return int((value * 1000).to_integral_value()), True
    except (InvalidOperation, ValueError, OverflowError):
        return 0, False


def _ids(spans: list[AnyEvent]) -> dict[str, Column]:
    return {
        "pid": integers([event.pid for event in spans], np.int64),
        "tid": integers([event.tid for event in spans], np.int64),
    }


def _arguments(spans: list[AnyEvent]) -> dict[str, Column]:
    args = [event.args or _NO_ARGS for event in spans]
    external = integers([row.external_id for row in args], np.int64)
    older = integers([row.external_id_2021 for row in args], np.int64) if any(external == UNKNOWN_ID) else external
    return {
        "stream": integers([row.stream for row in args], np.int32),
        "device": integers([row.device for row in args], np.int32),
        "correlation": integers([row.correlation for row in args], np.int64),
        "external_id": np.where(external == UNKNOWN_ID, older, external),
        "bytes": _first_known(args, (lambda row: row.bytes, lambda row: row.bytes_2021, lambda row: row.size)),
        "sync_kind": _sync_kinds(args),
        "wait_stream": integers([row.wait_stream for row in args], np.int32),
        "wait_event": integers([row.wait_event for row in args], np.int64),
        "wait_record": integers([row.wait_record for row in args], np.int64),
        "graph": integers([row.graph for row in args], np.int64),
    }


def _first_known(args: list[Args], spellings: Iterable[Callable[[Args], Any]]) -> Column:
    out = np.full(len(args), UNKNOWN_ID, dtype=np.int64)
    for spelling in spellings:
        values = [spelling(row) for row in args]
        if any(value is not None for value in values):
            out = np.where(out == UNKNOWN_ID, integers(values, np.int64), out)
    return out


def _sync_kinds(args: list[Args]) -> Column:
    code = {kind: position for position, kind in enumerate(SYNC_KINDS)}
    return np.array([code.get(row.sync_kind or "", UNKNOWN_ID) for row in args], dtype=np.int8)


def integers(values: list[Any], dtype: type[np.signedinteger[Any]]) -> Column:
    """Ids as integers; None and what is no number become -1, "stream 7" becomes 7."""
    try:
        out = np.array([UNKNOWN_ID if value is None else value for value in values], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        out = np.array([_integer(value) for value in values], dtype=np.int64)
    if dtype is not np.int64:
        out[(out > LARGEST_STREAM) | (out < UNKNOWN_ID)] = UNKNOWN_ID
    return out.astype(dtype, copy=False)


def _integer(value: object) -> int:
    if isinstance(value, str):
        return _from_string(value)
    if isinstance(value, float) and not np.isfinite(value):
        return UNKNOWN_ID
    if isinstance(value, (int, float)) and abs(value) < LARGEST_NS:
        return int(value)
    return UNKNOWN_ID


def _from_string(value: str) -> int:
    text = value.strip()
    if text.lower().startswith("0x"):
        try:
            number = int(text, 16)
        except ValueError:
            return UNKNOWN_ID
        return number if number < LARGEST_NS else UNKNOWN_ID
    match = _DIGITS.search(text)
    return int(match[1]) if match else UNKNOWN_ID
