"""Sets of half-open intervals [start, end) as pairs of numpy arrays.

In and out: integer arrays of equal length. A *set* is ordered, disjoint and without empty members; `union` makes one
from anything, and the other functions take sets. Everything is linear after one sort, without a Python loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
IntervalSet = tuple[Times, Times]

EMPTY: IntervalSet = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(starts: npt.ArrayLike, ends: npt.ArrayLike) -> IntervalSet:
    """The set covered by any intervals; touching ones are joined."""
    begin, finish = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
    filled = finish > begin
    begin, finish = begin[filled], finish[filled]
    if not len(begin):
        return EMPTY
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(finish[order])
    first = np.concatenate(([True], begin[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return begin[first], reach[last]


def distinct(points: Times) -> Times:
    """The points in order, each once. They come as a few runs that are ordered, which a stable sort only merges:
    twenty times as fast as any other; and `np.unique` hashes integers first."""
    ordered = np.sort(points, kind="stable")
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def total(intervals: IntervalSet) -> int:
    """Length of a set."""
    return int((intervals[1] - intervals[0]).sum())


def clip(intervals: IntervalSet, low: int, high: int) -> IntervalSet:
    """The part of a set inside [low, high)."""
    starts, ends = np.maximum(intervals[0], low), np.minimum(intervals[1], high)
    inside = ends > starts
    return starts[inside], ends[inside]


def intersect(left: IntervalSet, right: IntervalSet) -> IntervalSet:
    """What lies in both sets."""
    if not len(left[0]) or not len(right[0]):
        return EMPTY
    edges = np.concatenate((_interleaved(left), _interleaved(right)))
    order = np.argsort(edges, kind="stable")  # two ordered runs, which a stable sort only merges
    level = np.cumsum(1 - 2 * (order & 1))  # even positions open, odd ones close; so they do in the right set
    on = np.flatnonzero(level == 2)
    starts, ends = edges[order[on]], edges[order[on + 1]]
    filled = ends > starts
    return starts[filled], ends[filled]


def subtract(left: IntervalSet, right: IntervalSet) -> IntervalSet:
    """What lies in the first set and not in the second."""
    if not len(left[0]) or not len(right[0]):
        return left
    low = min(int(left[0][0]), int(right[0][0]))
    high = max(int(left[1][-1]), int(right[1][-1]))
    return intersect(left, complement(right, low, high))


def complement(intervals: IntervalSet, low: int, high: int) -> IntervalSet:
    """What of [low, high) lies outside a set."""
    inside = clip(intervals, low, high)
    starts = np.concatenate(([low], inside[1]))
    ends = np.concatenate((inside[0], [high]))
    filled = ends > starts
    return starts[filled], ends[filled]


def covered(intervals: IntervalSet, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Times:
    """For each query [start, end): how much of it the set covers."""
    begin, finish = intervals
    lengths = np.concatenate(([0], np.cumsum(finish - begin)))
    return _covered_until(intervals, lengths, np.asarray(ends)) - _covered_until(intervals, lengths, np.asarray(starts))


def inside(intervals: IntervalSet, points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """For each point: whether the set contains it."""
    at = np.asarray(points)
    if not len(intervals[0]):
        return np.zeros(at.shape, dtype=np.bool_)
    position = np.searchsorted(intervals[0], at, side="right") - 1
    return (position >= 0) & (at < intervals[1][position])


def _covered_until(intervals: IntervalSet, lengths: Times, points: npt.NDArray[Any]) -> Times:
    begin, finish = intervals
    if not len(begin):
        return np.zeros(points.shape, dtype=np.int64)
    before = np.searchsorted(begin, points, side="right")
    last = np.maximum(before - 1, 0)
    overshoot = np.maximum(finish[last] - points, 0)
    return np.where(before > 0, lengths[before] - overshoot, 0)


def _interleaved(intervals: IntervalSet) -> Times:
    """All borders of a set, which are in order."""
    return np.stack(intervals, axis=1).ravel()
