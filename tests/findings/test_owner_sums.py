"""Rows grouped by several keys, and what holds the most of each group, against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens.findings.owners.sums import groups, heaviest

NUMBERS = st.one_of(st.integers(-1, 5), st.integers(-(2**40), 2**40))
"""Close together they are counted, far apart sorted."""


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40))
def test_groups_are_numbered_in_the_order_of_their_keys(rows: list[tuple[int, int]]) -> None:
    keys = [np.array([row[position] for row in rows], dtype=np.int64) for position in (0, 1)]
    group, first = groups(*keys)
    in_order = sorted(set(rows))
    assert group.tolist() == [in_order.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in in_order]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64])
def test_narrow_numbers_do_not_overflow(kind: type[np.signedinteger]) -> None:
    keys = [np.arange(-100, 100, dtype=kind) for _ in range(3)]
    assert groups(*keys)[0].tolist() == list(range(200))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4), st.integers(1, 100)), max_size=40))
def test_the_heaviest_values_of_each_group(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array([row[position] for row in rows], dtype=np.int64) for position in range(3)]
    sums: list[Counter[int]] = [Counter() for _ in range(4)]
    for group, value, weight in rows:
        if value >= 0:
            sums[group][value] += weight
    expected = [sorted(one.items(), key=lambda entry: (-entry[1], entry[0])) for one in sums]
    assert heaviest(columns[0], columns[1], columns[2], 4) == expected
