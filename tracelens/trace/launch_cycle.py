"""Steps of a trace without step marks: the period of the launch sequence.

In: API calls and GPU work. Out: host times at which the sequence starts over. A training loop launches the same kernels
in the same order in each step, so some kernel occurs once per step, at equal distances in the sequence. The kernels of
a repeated layer also recur, but do not cover the step evenly; the test for even coverage rejects them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import TraceTable
from tracelens.trace.tables import among

Column = npt.NDArray[Any]

TOLERANCE = 0.1
"""Two spans are equally long if they differ by at most this share: a periodic read or log line adds a few launches."""
COVERAGE = 0.8
"""Share of the sequence that equal spans must cover; below it the kernel is one of many in a layer."""
DIFFERING = 0.2
"""Share of its launches in which a span may differ from the typical one: a read or a log line every few steps,
another kernel for a short last batch."""
SAMPLED = 100
"""Stretches that are compared, spread evenly: enough for the share, little in a trace of 100,000 steps."""
FEWEST = 4
"""Occurrences needed: three steps that agree. Two may be a warm-up and a run."""
SHORTEST = 4
"""Launches per step: a period of less is a single kernel in a row."""


def boundaries(calls: TraceTable, ops: TraceTable) -> Column:
    """Start times of the calls that begin each period; empty where the sequence has none."""
    sequence, started = _sequence(calls, ops)
    if len(sequence) < FEWEST * SHORTEST:
        return np.empty(0, dtype=np.int64)
    anchor = _anchor(sequence, _copies_in(ops))
    if anchor is None:
        return np.empty(0, dtype=np.int64)
    return np.unique(started[sequence == anchor])


def _sequence(calls: TraceTable, ops: TraceTable) -> tuple[Column, Column]:
    """Names of GPU work in launch order, with the time of each launch."""
    call = ops["call"]
    linked = np.flatnonzero(call >= 0)
    if not len(linked):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    started = calls["start_ns"][call[linked]]
    order = np.lexsort((linked, started))
    return ops["name"].codes[linked][order], started[order]


def _copies_in(ops: TraceTable) -> frozenset[int]:
    """Names of host-to-device copies: where several kernels mark the period, a step begins with its batch."""
    return frozenset(np.unique(ops["name"].codes[among(ops["direction"], "h2d")]).tolist())


def _anchor(sequence: Column, copies: frozenset[int]) -> int | None:
    """The name that cuts the sequence into the most equal spans; of equals a copy, then the first to occur."""
    order = np.argsort(sequence, kind="stable")
    names, first, counts = np.unique(sequence[order], return_index=True, return_counts=True)
    best: tuple[int, bool, int] | None = None
    chosen = None
    for name, begin, count in zip(names, first, counts, strict=True):
        positions = order[begin : begin + count]
        if count < FEWEST or not _covers(positions, len(sequence)):
            continue
        rank = (int(count), int(name) in copies, -int(positions[0]))
        if (best is None or rank > best) and _alike(sequence, positions):
            best, chosen = rank, int(name)
    return chosen


def _covers(positions: Column, length: int) -> bool:
    spans = np.diff(positions)
    typical = float(np.median(spans))
    if typical < SHORTEST:
        return False
    equal = np.abs(spans - typical) <= TOLERANCE * typical
    edges = positions[0] + (length - positions[-1])  # at most one period may hang over at the two ends together
    return bool(spans[equal].sum() >= COVERAGE * (length - edges) and edges <= 1.5 * typical + SHORTEST)


def _alike(sequence: Column, positions: Column) -> bool:
    """Whether most spans between the positions hold the same launches, but for those of every few steps."""
    picked = np.unique(np.linspace(0, len(positions) - 2, SAMPLED).astype(np.int64))
    width = int(sequence.max()) + 1
    counts = np.stack([np.bincount(sequence[positions[at] : positions[at + 1]], minlength=width) for at in picked])
    typical = np.median(counts, axis=0)
    differing = np.abs(counts - typical).sum(axis=1) / max(1.0, float(typical.sum()))
    return bool(np.count_nonzero(differing <= DIFFERING) >= COVERAGE * len(picked))
