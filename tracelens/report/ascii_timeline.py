"""One recorded step as lines of characters, a lane each: for places where no picture can be drawn.

In: a Timeline. Out: text. A column shows what ran for most of its time; what is shorter than half a column is not
drawn, so the picture is for the shape of a step, the tables are for its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens.model import Timeline, TraceTable
from tracelens.report.formatting import milliseconds
from tracelens.report.step_picture import typical
from tracelens.trace.numbering import numbered
from tracelens.trace.streams import busiest, busy_ns
from tracelens.trace.tables import among

COLUMNS = 72
LANES = 8
"""Streams drawn at most: the busiest ones."""
MARKS = {"wait": "w", "loader": "D", "call": "c", "kernel": "#", "copy": "=", "memset": "=", "collective": "~"}
LEGEND = "# compute  = copy  ~ communication  w host waits  c host issues work  D DataLoader  . nothing"


def strip(timeline: Timeline) -> str | None:
    """None where there is no step or nothing in it."""
    chosen = typical(timeline.tables.steps)
    if chosen is None:
        return None
    start, end = int(chosen["start_ns"]), int(chosen["end_ns"])
    lanes = list(_lanes(timeline, start, end))
    if not lanes or end <= start:
        return None
    width = max(len(name) for name, _ in lanes)
    lines = [f"{name:<{width}} |{row}|" for name, row in lanes]
    return "\n".join([*lines, f"{'':<{width}}  0{milliseconds(end - start):>{COLUMNS - 1}}", LEGEND])


def _lanes(timeline: Timeline, start: int, end: int) -> Iterator[tuple[str, str]]:
    tables = timeline.tables
    host = [("c", _of_thread(tables.calls, timeline.main_thread)), ("D", tables.loader), ("w", tables.waits)]
    row = _row(host, start, end)
    if row.strip("."):
        yield "Python thread", row
    ops = tables.ops
    streams, position = numbered(ops["stream"])
    for number in busiest(busy_ns(ops, position, len(streams)), LANES):
        mine = ops[position == number]
        row = _row([(mark, mine[among(mine["kind"], kind)]) for kind, mark in MARKS.items()], start, end)
        if row.strip("."):
            yield f"stream {streams[number]}", row


def _of_thread(calls: TraceTable, thread: int | None) -> TraceTable:
    return calls if thread is None else calls[calls["thread"] == thread]


def _row(layers: list[tuple[str, TraceTable]], start: int, end: int) -> str:
    """Later layers win a column that they fill for half; a wait lies inside the call that waits."""
    row = np.full(COLUMNS, ".")
    for mark, table in layers:
        row[_covered(table, start, end) >= 0.5] = mark
    return "".join(row)


def _covered(table: TraceTable, start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Share of each column's time that the rows cover; rows of one lane do not overlap, or by a hair."""
    edges = np.linspace(start, end, COLUMNS + 1)
    inside = table[(table["end_ns"] > start) & (table["start_ns"] < end)]
    total = np.zeros(COLUMNS)
    for first, last in zip(inside["start_ns"], inside["end_ns"], strict=True):
        total += np.clip(np.minimum(last, edges[1:]) - np.maximum(first, edges[:-1]), 0, None)
    share: np.ndarray[tuple[int], np.dtype[np.float64]] = np.minimum(total * COLUMNS / max(end - start, 1), 1.0)
    return share
