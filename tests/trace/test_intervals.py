"""Interval sets and nested spans, held against their plain definitions."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens.trace import intervals
from tracelens.trace.nesting import NestedSpans

LIMIT = 30
SPANS = st.lists(st.tuples(st.integers(0, LIMIT), st.integers(0, LIMIT)), max_size=8)


def points(spans: list[tuple[int, int]]) -> set[int]:
    """The integers that half-open spans cover."""
    return {point for start, end in spans for point in range(start, end)}


def made(spans: list[tuple[int, int]]) -> intervals.IntervalSet:
    return intervals.union([start for start, _ in spans], [end for _, end in spans])


def shown(found: intervals.IntervalSet) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in zip(*found, strict=True)]


@given(SPANS, SPANS, st.integers(0, LIMIT), st.integers(0, LIMIT))
def test_sets_are_what_their_points_are(left: list[tuple[int, int]], right: list[tuple[int, int]], low: int, high: int):
    a, b, low, high = made(left), made(right), min(low, high), max(low, high)
    window = set(range(low, high))
    for found, expected in (
        (a, points(left)),
        (intervals.intersect(a, b), points(left) & points(right)),
        (intervals.subtract(a, b), points(left) - points(right)),
        (intervals.clip(a, low, high), points(left) & window),
        (intervals.complement(a, low, high), window - points(left)),
    ):
        spans = shown(found)
        assert points(spans) == expected
        assert intervals.total(found) == len(expected)
        assert all(end < start for (_, end), (start, _) in pairwise(spans)) or found is not a
    assert intervals.covered(a, [low], [high])[0] == len(points(left) & window)
    assert set(np.flatnonzero(intervals.inside(a, np.arange(LIMIT)))) == points(left) & set(range(LIMIT))


def tree(seed: int) -> list[tuple[int, int]]:
    """Spans that nest properly."""
    draw = random.Random(seed)
    spans: list[tuple[int, int]] = []

    def fill(low: int, high: int, depth: int) -> None:
        while low < high and depth < 4:
            start = draw.randint(low, high)
            end = draw.randint(start, high)
            spans.append((start, end))
            fill(start, end, depth + 1)
            low = end + draw.randint(0, 5)

    fill(0, LIMIT, 0)
    return spans


@pytest.mark.parametrize("seed", range(30))
def test_the_innermost_span(seed: int) -> None:
    spans = tree(seed)
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    found = NestedSpans(starts, ends).innermost(np.arange(-1, LIMIT + 2))
    for instant, position in zip(range(-1, LIMIT + 2), found, strict=True):
        around = [(end - start) for start, end in spans if start <= instant < end]
        assert (position == -1) == (not around)
        if around:
            assert ends[position] - starts[position] == min(around)
            assert starts[position] <= instant < ends[position]
