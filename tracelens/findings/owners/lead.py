"""Which wait idle time after it is due to, and how much of it.

In: waits with their lead, and idle segments, both in time. Out: the parts of segments that waits are the cause of.

The lead of a wait is the GPU work that was still to be done when it began: had the host gone on, the GPU would have had
that much to bridge what came later. Idle time uses up the lead of the wait before it, then of those before that one,
and never more than it was. So a copy that blocked for 3 µs answers for 3 µs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]

SKEW_NS = 5_000
"""Idle time that begins this long before a wait is done belongs to it: so far host and GPU clocks differ."""


@dataclass(frozen=True)
class DueParts:
    """Parts of segments, in order: `lengths` ns of segment `segments` are due to wait `waits` (positions of both)."""

    segments: Column
    waits: Column
    lengths: Column


def due_to_waits(done: Column, lead: Column, starts: Column, lengths: Column) -> DueParts:
    """The parts of segments (in order) that waits are the cause of. `done`: when each wait's work was done, in any
    order."""
    upto = np.concatenate(([0], np.cumsum(lengths)))
    waits, begin, until = _used(done, lead, starts, upto)
    # From stretches of idle time laid end to end back to the segments that they cover.
    first = np.searchsorted(upto, begin, side="right") - 1
    count = np.searchsorted(upto, until, side="left") - first
    part = np.repeat(np.arange(len(waits)), count)
    segment = first[part] + np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count)
    length = np.minimum(until[part], upto[segment + 1]) - np.maximum(begin[part], upto[segment])
    filled = length > 0
    return DueParts(segment[filled], waits[part][filled], length[filled])


def _used(done: Column, lead: Column, starts: Column, upto: Column) -> tuple[Column, Column, Column]:
    """Wait, begin and end of each stretch of idle time that uses up a lead, where all idle time lies end to end."""
    order = np.argsort(done, kind="stable")
    order = order[lead[order] > 0]
    at = upto[np.searchsorted(starts, done[order] - SKEW_NS, side="left")].tolist()
    open_leads: list[tuple[int, int]] = []
    used: list[tuple[int, int, int]] = []
    for wait, ns, position, following in zip(
        order.tolist(), lead[order].tolist(), at, [*at, int(upto[-1])][1:], strict=True
    ):
        open_leads.append((wait, ns))
        while position < following and open_leads:
            earlier, left = open_leads.pop()
            taken = min(left, following - position)
            used.append((earlier, position, position + taken))
            position += taken
            if left > taken:
                open_leads.append((earlier, left - taken))
    columns = np.array(used, dtype=np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]
