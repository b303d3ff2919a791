"""Which wait idle time after it is due to, and how much of it.

In: waits with their lead, and idle segments, both in time. Out: per segment the waits that it is due to.

The lead of a wait is the GPU work that was still to be done when it began: had the host gone on, the GPU would have had
that much to bridge what came later. Idle time uses up the lead of the wait before it, then of those before that one,
and never more than it was. So a copy that blocked for 3 µs answers for 3 µs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]

SKEW_NS = 5_000
"""Idle time that begins this long before a wait is done belongs to it: so far host and GPU clocks differ."""


def due_to_waits(done: Column, lead: Column, starts: Column, lengths: Column) -> list[list[tuple[int, int]]]:
    """For each segment (in order) pairs of a wait's position and the idle ns due to it. `done`: when each wait's work
    was done, in any order."""
    order = np.argsort(done, kind="stable")
    open_leads: list[tuple[int, int]] = []
    out: list[list[tuple[int, int]]] = []
    following = 0
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        while following < len(order) and done[order[following]] <= start + SKEW_NS:
            wait = int(order[following])
            if lead[wait] > 0:
                open_leads.append((wait, int(lead[wait])))
            following += 1
        out.append(_used(open_leads, length))
    return out


def _used(open_leads: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Take `length` off the leads, the last one first; what is left of them stays."""
    used = []
    while length > 0 and open_leads:
        wait, left = open_leads.pop()
        taken = min(left, length)
        used.append((wait, taken))
        length -= taken
        if left > taken:
            open_leads.append((wait, left - taken))
    return used
