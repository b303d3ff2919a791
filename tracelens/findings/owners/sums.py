"""Sums by several keys at once: which value holds the most of each group.

In: group numbers, values and weights, as columns. Out: per group its values, the heaviest first. Group-by without a
Python loop over rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]


def groups(*keys: Column) -> tuple[Column, Column]:
    """The group of each row (rows that agree in all keys), numbered from 0, and the first row of each group."""
    code = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        values, place = np.unique(key, return_inverse=True)
        code = np.unique(code * max(1, len(values)) + place, return_inverse=True)[1]
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
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
