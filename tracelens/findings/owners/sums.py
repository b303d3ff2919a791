"""Sums by several keys at once: which value holds the most of each group.

In: group numbers, values and weights, as columns. Out: per group its values, the heaviest first. Group-by without a
Python loop over rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]

FAR_APART = 4
"""Values in a range of more than this many times their number are sorted instead of counted."""


def groups(*keys: Column) -> tuple[Column, Column]:
    """The group of each row (rows that agree in all keys), numbered from 0, and the first row of each group."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        count, place = _numbered(np.asarray(key, dtype=np.int64))
        code = _numbered(code * max(1, count) + place)[1]
    count, group = _numbered(code)
    first = np.full(count, len(group), dtype=np.int64)
    np.minimum.at(first, group, np.arange(len(group)))
    return group, first


def _numbered(key: Column) -> tuple[int, Column]:
    """How many distinct values, and the rank of each row's value among them. By counting where the values lie close
    together, as numbers of lines and names do: sorting takes twenty times as long."""
    if not len(key):
        return 0, key
    low = int(key.min())
    span = int(key.max()) - low + 1
    if span > FAR_APART * len(key):
        values, place = np.unique(key, return_inverse=True)
        return len(values), place
    present = np.bincount(key - low, minlength=span) > 0
    rank = np.cumsum(present) - 1
    return int(np.count_nonzero(present)), rank[key - low]


def heaviest(group: Column, value: Column, weight: Column, count: int) -> list[list[tuple[int, int]]]:
    """Per group (value, sum of weights), the heaviest first, then the smaller value; negative values are left out."""
    out: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    known = np.flatnonzero(value >= 0)
    if not len(known):
        return out
    pair, first = groups(group[known], value[known])
    total = np.bincount(pair, weights=weight[known]).astype(np.int64)
    at_group, at_value = group[known][first], value[known][first]
    for row in np.lexsort((at_value, -total)).tolist():
        out[int(at_group[row])].append((int(at_value[row]), int(total[row])))
    return out
