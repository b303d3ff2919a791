"""Which of many nested spans of one thread encloses an instant.

In: starts and ends of spans that nest properly (calls within calls). Out: for each instant the position of the
innermost span around it. The search is by nesting level instead of with a stack: one sort and one binary search.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.trace.tables import TraceRows

Column = npt.NDArray[Any]


class NestedSpans:
    """The spans of one thread, ready for questions."""

    def __init__(self, starts: Column, ends: Column) -> None:
        filled = np.flatnonzero(ends > starts)
        order = filled[np.lexsort((-ends[filled], starts[filled]))]
        self._position = order
        self._start, self._end = starts[order], ends[order]
        self._closing = np.sort(self._end, kind="stable")  # almost in order, which a stable sort makes use of
        level = np.arange(len(order)) - np.searchsorted(self._closing, self._start, side="right")
        self._width = int(self._end.max()) + 1 if len(order) else 1
        key = np.maximum(level, 0) * self._width + self._start
        self._by_level = np.argsort(key, kind="stable")
        self._key = key[self._by_level]

    def innermost(self, instants: Column) -> Column:
        """Position of the innermost span around each instant, -1 where there is none."""
        if not len(self._start):
            return np.full(len(instants), -1, dtype=np.int64)
        opened = np.searchsorted(self._start, instants, side="right")
        level = opened - np.searchsorted(self._closing, instants, side="right") - 1
        last = np.searchsorted(self._key, level * self._width + instants, side="right") - 1
        candidate = self._by_level[np.maximum(last, 0)]
        # Spans that do not nest (torch 2.x writes some) would give a wrong level: what is found must enclose.
        encloses = (level >= 0) & (last >= 0) & (self._start[candidate] <= instants) & (instants < self._end[candidate])
        return np.where(encloses, self._position[candidate], -1)


def operations(rows: TraceRows, threads: Column, instants: Column) -> Column:
    """Row of the innermost framework operation (`aten::copy_`, …) around each instant of a thread, -1 for none."""
    return enclosing(rows, rows.in_categories(("cpu_op",)), threads, instants)


def enclosing(rows: TraceRows, spans: Column, threads: Column, instants: Column) -> Column:
    """The innermost of the rows `spans` around each instant of a thread, -1 for none."""
    out = np.full(len(instants), -1, dtype=np.int64)
    for thread in np.unique(threads):
        mine = spans[rows.column("tid")[spans] == thread]
        chosen = np.flatnonzero(threads == thread)
        innermost = NestedSpans(rows.column("start_ns")[mine], rows.column("end_ns")[mine]).innermost(instants[chosen])
        out[chosen[innermost >= 0]] = mine[innermost[innermost >= 0]]
    return out
