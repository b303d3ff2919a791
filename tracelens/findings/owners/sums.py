"""Sums by several keys at once: which value holds the most of each group.

In: group numbers, values and weights, as columns. Out: per group its values, the heaviest first. Group-by without a
Python loop over rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.trace.numbering import numbered

Column = npt.NDArray[Any]


def groups(*keys: Column) -> tuple[Column, Column]:
    """The group of each row (rows that agree in all keys), numbered from 0, and the first row of each group."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        distinct, place = numbered(key)
        code = numbered(code * max(1, len(distinct)) + place)[1]
    distinct, group = numbered(code)
    first = np.full(len(distinct), len(group), dtype=np.int64)
    np.minimum.at(first, group, np.arange(len(group)))
    return group, first


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
