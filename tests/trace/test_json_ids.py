"""Ids of a file as integers: narrow where all fit, and never another number than the file's."""

from __future__ import annotations

import numpy as np
import pytest

from tracelens.trace.json_numbers import ids, streams

WIDE = 2**31


@pytest.mark.parametrize(
    ("values", "width"),
    [((1, -1, 7), 4), ((1, WIDE - 1), 4), ((1, WIDE), 8), ((-WIDE - 1,), 8), ((1, "8"), 8), ((None, "stream 7"), 8)],
)
def test_ids_take_32_bits_where_all_fit(values: tuple[object, ...], width: int) -> None:
    found = ids(values)
    assert found.dtype.itemsize == width
    known = {None: -1, "8": 8, "stream 7": 7}
    assert found.tolist() == [known.get(value, value) for value in values]  # type: ignore[call-overload]


@pytest.mark.parametrize("value", [4294967295, WIDE, -2, -WIDE - 1, None])
def test_what_is_no_stream_is_none(value: int | None) -> None:
    found = streams((7, value))
    assert found.dtype == np.int32
    assert found.tolist() == [7, -1]
