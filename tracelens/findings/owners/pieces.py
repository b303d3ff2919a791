"""Segments cut where a wait's lead ends: each piece has one owner.

In: a Timeline and its segments. Out: `Pieces`, which add up to the segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.owners.idle_segments import Segments
from tracelens.findings.owners.lead import DueParts, due_to_waits
from tracelens.model import Timeline
from tracelens.trace import intervals
from tracelens.trace.tables import among

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Pieces:
    """Parts of segments. `wait`: the wait that a piece is due to, -1 for none."""

    segment: Column
    wait: Column
    lengths: Column


def cut(timeline: Timeline, segments: Segments) -> Pieces:
    """Every segment, without what is due to waits and that by itself."""
    due = _due(timeline, segments)
    rest = segments.lengths - np.bincount(due.segments, weights=due.lengths, minlength=len(segments.starts)).astype(
        np.int64
    )
    left = np.flatnonzero(rest > 0)
    return Pieces(
        np.concatenate((due.segments, left)),
        np.concatenate((due.waits, np.full(len(left), -1, dtype=np.int64))),
        np.concatenate((due.lengths, rest[left])),
    )


def _due(timeline: Timeline, segments: Segments) -> DueParts:
    waits = timeline.tables.waits
    real = np.flatnonzero(~waits["window_edge"] & (waits["wait_ns"] > 0) & ~among(waits["kind"], "alloc"))
    after = np.flatnonzero(segments.after_wait)
    start = waits["start_ns"][real]
    done = start + waits["wait_ns"][real]
    ops = timeline.tables.ops
    lead = intervals.covered(intervals.union(ops["start_ns"], ops["end_ns"]), start, done)
    due = due_to_waits(done, lead, segments.starts[after], segments.lengths[after])
    return DueParts(after[due.segments], real[due.waits], due.lengths)
