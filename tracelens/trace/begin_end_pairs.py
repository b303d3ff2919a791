"""Begin and end events ("B" and "E") joined into complete ones, per thread, as a stack would.

In: the begin and end events as columns, in the order of the file. Out: the columns of the complete events, and how many
events have no partner. Kineto itself writes complete events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]

BEGINS = "begins"
"""The column that tells a begin from an end; the result does not have it."""


def join_pairs(halves: dict[str, Column]) -> tuple[dict[str, Column], int]:
    """Complete events that start with each begin's fields; ends have `start_ns` only."""
    order = np.lexsort((halves["start_ns"], halves["tid"], halves["pid"]))  # stable: ties stay as in the file
    begins = halves[BEGINS][order]
    same_thread = np.ones(len(order), dtype=np.bool_)
    for key in ("pid", "tid"):
        same_thread[1:] &= halves[key][order][1:] == halves[key][order][:-1]
    thread = np.cumsum(~same_thread)
    depth = np.cumsum(np.where(begins, 1, -1)) + ~begins  # of an event and its end: how many are open, itself included
    level = np.lexsort((depth, thread))  # within thread and depth, in order of time: begin and end in turn
    first, second = level[:-1], level[1:]
    pair = begins[first] & ~begins[second] & (depth[first] == depth[second]) & (thread[first] == thread[second])
    start, end = order[first[pair]], order[second[pair]]
    rows = np.argsort(start)
    start, end = start[rows], end[rows]
    out = {key: column[start] for key, column in halves.items() if key != BEGINS}
    out["end_ns"] = halves["start_ns"][end]
    return out, len(order) - 2 * len(start)
