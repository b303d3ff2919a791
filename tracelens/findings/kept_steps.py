"""The kept steps of a Timeline: the window of time and the number of steps that everything is averaged over.

In: a Timeline. Out: `KeptSteps`. Every number of this package that is "per step" divides by `count` and counts only
what belongs to these steps, so that the numbers add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import Timeline, TraceTable
from tracelens.trace import intervals
from tracelens.trace.tables import among

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeptSteps:
    """The kept steps: positions in the steps table, their starts and ends on the host clock."""

    positions: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @property
    def count(self) -> int:
        return len(self.starts)

    @property
    def wall_ns(self) -> int:
        """Of all kept steps together."""
        return int((self.ends - self.starts).sum())

    @property
    def step_ns(self) -> int:
        """Mean step."""
        return self.per_step(self.wall_ns)

    def per_step(self, total: int) -> int:
        """Rounded in integers: floats lose nanoseconds of long times."""
        return (2 * total + self.count) // (2 * self.count)

    @property
    def covered(self) -> intervals.IntervalSet:
        return intervals.union(self.starts, self.ends)

    def launches(self, calls: TraceTable) -> float:
        """Calls that launch a kernel, per step."""
        return float(np.count_nonzero(among(calls["kind"], "launch") & self.holds(calls["step"])) / self.count)

    def holds(self, steps: npt.NDArray[np.integer[Any]]) -> Mask:
        """Which rows belong to a kept step, by their `step` column."""
        return np.isin(steps, self.positions)


def select(timeline: Timeline) -> KeptSteps:
    """The kept steps; those that are not attributed where none is kept; the whole trace where there are no steps."""
    steps = timeline.tables.steps
    starts, ends = steps["start_ns"], steps["end_ns"]
    for chosen in (steps["kept"], ~steps["attributed"]):
        rows = np.flatnonzero(chosen & (ends > starts))
        if len(rows):
            return KeptSteps(rows, starts[rows], ends[rows])
    columns = timeline.trace.columns
    first, last = int(columns["start_ns"].min()), int(columns["end_ns"].max())
    return KeptSteps(np.array([-1]), np.array([first]), np.array([max(last, first + 1)]))


def spans(rows: TraceTable, chosen: Mask | npt.NDArray[np.int64]) -> intervals.IntervalSet:
    """The set that the chosen rows of a table (a mask, or positions) cover."""
    return intervals.union(rows["start_ns"][chosen], rows["end_ns"][chosen])
