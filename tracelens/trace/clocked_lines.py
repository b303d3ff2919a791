"""The line of the user's code that was under way at an instant, as the line clock knows it.

In: the clock's log, instants of threads. Out: a Location for each instant of an attributed step, None elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import LineLog, Location
from tracelens.trace.lines import fold

Column = npt.NDArray[Any]


def locate(log: LineLog | None, zero: int | None, threads: Column, instants: Column) -> list[Location | None]:
    """The innermost line under way at each instant of the thread that the clock looked at."""
    if log is None or zero is None:
        return [None] * len(instants)
    intervals = [interval for step in fold(log) for interval in step.intervals]
    starts = np.array([interval.start_ns - zero for interval in intervals], dtype=np.int64)
    last = np.searchsorted(starts, instants, side="right") - 1
    out: list[Location | None] = []
    for position, instant, thread in zip(last.tolist(), instants.tolist(), threads.tolist(), strict=True):
        interval = intervals[position] if position >= 0 and thread == log.thread else None
        line = interval.line if interval is not None and instant < interval.end_ns - zero else None
        out.append(None if line is None else Location(log.codes[line[0]].path, line[1], log.codes[line[0]].function))
    return out
