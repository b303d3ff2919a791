"""JSON values to integers: times in nanoseconds, and ids.

In: one field of many events, as the decoder gives it. Out: numpy arrays, and for times which of them are numbers. Times
are exact where the digits of the file are: integers, text, and doubles below `event_decoder.EXACT_FROM`. Files of ten
years and four vendors differ here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracelens.trace.event_decoder import UNKNOWN_ID, Values, whole

Column = npt.NDArray[Any]

LARGEST_STREAM = 2**31 - 1
"""Streams and devices above are Kineto's way (4294967295) to say "none"."""
LARGEST_NS = 2**62
_LARGEST_US = LARGEST_NS // 1000
_LONGEST = 40
"""Characters of a number; one long text among many rows would make a table of its width."""
_DIGITS = re.compile(r"(\d{1,18})\D*$")


def nanoseconds(values: Sequence[Any] | Column) -> tuple[Column, npt.NDArray[np.bool_]]:
    """Microseconds (int, double, text or raw digits) as integer ns, and which of them are numbers."""
    if isinstance(values, np.ndarray):
        return _from_whole(values)
    kinds = {*map(type, values)}
    if msgspec.Raw in kinds:
        return _from_text([bytes(value) for value in values])
    try:
        if kinds == {int}:
            return _from_whole(np.array(values, dtype=np.int64))
        if kinds <= {int, float, type(None)}:
            return _from_doubles(np.array(values, dtype=np.float64))
    except OverflowError:
        pass
    return _from_text([str(value).encode("utf-8", "replace") for value in values])


def integers(values: Values) -> Column:
    """Integers of 64 bits; None and what is no number become -1, "stream 7" becomes 7."""
    out = whole(values)
    return out if isinstance(out, np.ndarray) else _from_mixed(values)


def ids(values: Values) -> Column:
    """The same in 32 bits where all fit: for what is compared with its own kind only, and never computed with."""
    out = whole(values, "i")
    return out if isinstance(out, np.ndarray) else integers(values)


def streams(values: Values) -> Column:
    """Streams and devices, in 32 bits; -1 for what is none."""
    out = ids(values)
    if out.dtype == np.int64:
        out = np.where(out > LARGEST_STREAM, UNKNOWN_ID, out)
    return np.maximum(out, UNKNOWN_ID).astype(np.int32, copy=False)


def _from_mixed(values: Values) -> Column:
    try:
        return np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        number = {value: _integer(value) for value in {*values}}
        return np.array([number[value] for value in values], dtype=np.int64)


def _from_whole(micro: Column) -> tuple[Column, npt.NDArray[np.bool_]]:
    if not len(micro) or (micro.min() > -_LARGEST_US and micro.max() < _LARGEST_US):
        return micro * 1000, np.ones(len(micro), dtype=np.bool_)
    known = (micro > -_LARGEST_US) & (micro < _LARGEST_US)
    return np.where(known, micro, 0) * 1000, known


def _from_doubles(micro: Column) -> tuple[Column, npt.NDArray[np.bool_]]:
    known = np.isfinite(micro) & (np.abs(micro) < _LARGEST_US)
    micro = np.where(known, micro, 0.0)
    whole = np.floor(micro)  # apart from its fraction, or the product would be rounded twice
    return whole.astype(np.int64) * 1000 + np.rint((micro - whole) * 1000).astype(np.int64), known


def _from_text(texts: list[bytes]) -> tuple[Column, npt.NDArray[np.bool_]]:
    """Exact: the digits before and after the point, as integers."""
    array = np.array([text if len(text) <= _LONGEST else b"?" for text in texts], dtype=np.bytes_)
    width = array.dtype.itemsize
    digits = array.view(np.uint8).reshape(len(texts), width)
    is_point = digits == ord(".")
    point = np.where(is_point.any(axis=1), is_point.argmax(axis=1), np.char.str_len(array))
    plain = ((digits >= ord("0")) & (digits <= ord("9"))) | (digits == 0) | is_point
    regular = plain.all(axis=1) & (point > 0) & (point <= 16) & (is_point.sum(axis=1) <= 1)
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
        if not value.is_finite() or abs(value) >= _LARGEST_US:
            return 0, False
        return int((value * 1000).to_integral_value()), True
    except (ArithmeticError, ValueError):
        return 0, False


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
