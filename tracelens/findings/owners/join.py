"""Carries the lines of the attributed steps over to a clean step: same operations, same lines between them.

In: the operations of a clean step, and those of the attributed steps with the lines that ran meanwhile. Out: which line
the host was at, from when to when, on the clock of the clean step. Pure, on arrays.

Operations are anchors. Each step is cut at them into pieces: before the first, the first itself, between the first and
the second, and so on; the borders of the step are anchors, too. A piece of the clean step gets the lines of the same
piece of an attributed step, in the same order and proportions: lengths are never compared, because attributed steps
run slower. Where operations differ nothing is carried over (`UNMATCHED`).

A piece that lasts much longer than in any attributed step holds something that did not run there, or the same for
longer. Samples of the stack that were taken meanwhile tell which; what none of them explains has no line (`EXCESS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]

UNMATCHED, EXCESS = -1, -2
EXCESS_FACTOR = 2.0
EXCESS_NS = 200_000
"""A clean piece longer than twice the attributed one and this holds something that did not run there."""
MOST_COMPARED = 4_000_000
"""Product of two lengths of operations that differ: beyond it the comparison takes longer than it is worth."""


@dataclass(frozen=True)
class StepOperations:
    """One step on the host: its borders, and its operations in order, none inside another."""

    start_ns: int
    end_ns: int
    names: tuple[str, ...]
    starts: Column
    ends: Column

    @property
    def edges(self) -> Column:
        """Borders of the pieces: gap, operation, gap, operation, …, gap. Never going back in time."""
        inner = np.stack((self.starts, self.ends), axis=1).ravel() if len(self.starts) else np.empty(0, dtype=np.int64)
        edges = np.concatenate(([self.start_ns], inner, [self.end_ns])).astype(np.int64)
        return np.minimum(np.maximum.accumulate(edges), max(self.start_ns, self.end_ns))


@dataclass(frozen=True)
class StepLines:
    """The lines of one attributed step: intervals without a hole, each with a number that stands for its lines."""

    starts: Column
    ends: Column
    weights: Column
    """Lengths without what the line clock cost."""
    paths: Column


@dataclass(frozen=True)
class HostSpans:
    """Which lines the host was at during a clean step: intervals without a hole."""

    starts: Column
    ends: Column
    paths: Column
    """Numbers as in `StepLines`, or `UNMATCHED`, or `EXCESS`."""


@dataclass(frozen=True)
class LineSamples:
    """Where the host was now and then in the clean steps. `lines`: numbers of innermost lines."""

    times: Column
    lines: Column
    line_of: Column
    """The innermost line of each path."""
    path_of: Column
    """A path that ends in each line."""


NO_SAMPLES = LineSamples(*(np.empty(0, dtype=np.int64) for _ in range(4)))


def carry(
    clean: StepOperations,
    attributed: Sequence[tuple[StepOperations, StepLines]],
    samples: LineSamples = NO_SAMPLES,
) -> HostSpans:
    """The lines of a clean step, piece by piece from the attributed step whose piece has the nearest length."""
    edges = clean.edges
    length = np.diff(edges)
    best = np.full(len(length), -1, dtype=np.int64)
    source = np.full(len(length), UNMATCHED, dtype=np.int64)
    nearest = np.full(len(length), np.iinfo(np.int64).max)
    for number, (operations, _) in enumerate(attributed):
        other = np.diff(operations.edges)
        piece = matching_pieces(clean.names, operations.names)
        distance = np.where(piece >= 0, np.abs(length - other[piece]), np.iinfo(np.int64).max)
        closer = distance < nearest
        best, source = np.where(closer, number, best), np.where(closer, piece, source)
        nearest = np.where(closer, distance, nearest)
    parts = [_unmatched(edges, np.flatnonzero(source < 0))]
    for number, (operations, lines) in enumerate(attributed):
        mine = np.flatnonzero(best == number)
        matched = _Matched(edges, mine, operations.edges, source[mine])
        parts.append(_carried(matched, lines, samples))
    return _ordered(parts)


def laid_over(spans: HostSpans, known: HostSpans) -> HostSpans:
    """The same spans with the paths of `known`, spans in order, where they meet."""
    if not len(known.paths) or not len(spans.paths):
        return spans
    cuts = np.unique(np.concatenate((known.starts, known.ends)))
    around = np.maximum(np.searchsorted(spans.starts, cuts) - 1, 0)
    cuts = cuts[(cuts > spans.starts[around]) & (cuts < spans.ends[around])]
    starts, ends = (np.sort(np.concatenate((borders, cuts))) for borders in (spans.starts, spans.ends))
    paths = spans.paths[np.searchsorted(spans.starts, starts, side="right") - 1]
    at = np.maximum(np.searchsorted(known.starts, starts, side="right") - 1, 0)
    return HostSpans(
        starts, ends, np.where((known.starts[at] <= starts) & (starts < known.ends[at]), known.paths[at], paths)
    )


def matching_pieces(names: Sequence[str], others: Sequence[str]) -> Column:
    """For each piece of a step with the operations `names`, the same piece of a step with `others`; -1 for none."""
    anchor = _matching_operations(names, others)
    piece = np.full(2 * len(names) + 1, UNMATCHED, dtype=np.int64)
    piece[1::2] = np.where(anchor >= 0, 2 * anchor + 1, UNMATCHED)
    before = np.concatenate(([-1], np.where(anchor >= 0, anchor, -3)))  # -3: nothing follows it
    after = np.concatenate((np.where(anchor >= 0, anchor, -5), [len(others)]))
    piece[0::2] = np.where(before + 1 == after, 2 * after, UNMATCHED)
    return piece


def _matching_operations(names: Sequence[str], others: Sequence[str]) -> Column:
    """For each operation its like in the other step, by longest common runs; -1 for none."""
    if tuple(names) == tuple(others):
        return np.arange(len(names))
    out = np.full(len(names), -1, dtype=np.int64)
    head = _common(names, others)
    tail = _common(names[head:][::-1], others[head:][::-1])
    out[:head] = np.arange(head)
    if tail:
        out[len(names) - tail :] = np.arange(len(others) - tail, len(others))
    mine, theirs = names[head : len(names) - tail], others[head : len(others) - tail]
    if len(mine) * len(theirs) <= MOST_COMPARED:
        for run in SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks():
            out[head + run.a : head + run.a + run.size] = np.arange(head + run.b, head + run.b + run.size)
    return out


def _common(names: Sequence[str], others: Sequence[str]) -> int:
    """How many operations both begin with."""
    for at, (name, other) in enumerate(zip(names, others, strict=False)):
        if name != other:
            return at
    return min(len(names), len(others))


def _unmatched(edges: Column, pieces: Column) -> HostSpans:
    return HostSpans(edges[pieces], edges[pieces + 1], np.full(len(pieces), UNMATCHED, dtype=np.int64))


@dataclass(frozen=True)
class _Matched:
    """Pieces of a clean step (by their edges) with the same pieces of one attributed step."""

    edges: Column
    pieces: Column
    other_edges: Column
    sources: Column

    @property
    def lengths(self) -> Column:
        return np.asarray(np.diff(self.edges)[self.pieces])

    @property
    def excess(self) -> Column:
        """How much longer a piece lasts than it can by itself. An operation is itself, however long it takes."""
        other = np.diff(self.other_edges)[self.sources]
        much = (self.lengths > EXCESS_FACTOR * other + EXCESS_NS) & (self.pieces % 2 == 0)
        return np.where(much, self.lengths - other, 0)


def _carried(matched: _Matched, lines: StepLines, samples: LineSamples) -> HostSpans:
    """Lay the lines of the attributed pieces over the clean ones."""
    edges, pieces, sources = matched.edges, matched.pieces, matched.sources
    if not len(pieces):
        return _unmatched(edges, pieces)
    cut = _cut(lines, matched.other_edges)
    chosen = np.argsort(sources, kind="stable")  # each attributed piece serves one clean piece at most
    at = np.minimum(np.searchsorted(sources[chosen], cut.piece), len(sources) - 1)
    known = sources[chosen][at] == cut.piece
    row = chosen[at[known]]
    others = _others(matched, cut, samples)
    begin, until = edges[pieces], edges[pieces + 1]
    carried = until - begin - np.bincount(others.row, weights=others.length, minlength=len(pieces)).astype(np.int64)
    at_once = np.setdiff1d(np.arange(len(pieces)), row)  # in the attributed step it took no time at all
    instant = _at(lines, matched.other_edges[sources[at_once]])
    upto = (
        np.cumsum(others.length)
        - np.concatenate(([0], np.cumsum(others.length)))[np.searchsorted(others.row, others.row)]
    )
    ends = (begin + carried)[others.row] + upto
    return HostSpans(
        np.concatenate((begin[row] + _part(carried[row], cut.low[known]), begin[at_once], ends - others.length)),
        np.concatenate((begin[row] + _part(carried[row], cut.high[known]), (begin + carried)[at_once], ends)),
        np.concatenate((cut.path[known], instant, others.path)),
    )


def _part(length: Column, share: Column) -> Column:
    return np.asarray(np.round(length * share).astype(np.int64))


@dataclass(frozen=True)
class _Others:
    """Time of some pieces (rows of `_Matched`, in order) that the attributed step has nothing for."""

    row: Column
    length: Column
    path: Column


def _others(matched: _Matched, cut: _Cut, samples: LineSamples) -> _Others:
    rows: list[tuple[int, int, int]] = []
    excess = matched.excess
    for row in np.flatnonzero(excess).tolist():
        seen = cut.path[cut.piece == matched.sources[row]]
        piece = matched.pieces[row]
        span = int(matched.edges[piece]), int(matched.edges[piece + 1])
        rows += [(row, length, path) for path, length in _explained(span, int(excess[row]), seen, samples)]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return _Others(columns[0], columns[1], columns[2])


def _explained(span: tuple[int, int], excess: int, seen: Column, samples: LineSamples) -> list[tuple[int, int]]:
    """(path, ns) of what ran in a piece besides the lines that were `seen` there; nothing if those ran longer."""
    low, high = np.searchsorted(samples.times, span)
    if low == high:
        return [(EXCESS, excess)]
    lasted = np.diff(np.concatenate(([span[0]], samples.times[low:high])))  # since the sample before
    lines = samples.lines[low:high]
    new = ~np.isin(lines, samples.line_of[seen[seen >= 0]])
    unseen = {int(line): int(lasted[new & (lines == line)].sum()) for line in np.unique(lines[new])}
    scale = min(1.0, excess / max(1, sum(unseen.values())))
    return [(int(samples.path_of[line]), round(length * scale)) for line, length in unseen.items() if length]


def _at(lines: StepLines, instants: Column) -> Column:
    """The lines under way at some instants."""
    if not len(lines.paths):
        return np.full(len(instants), UNMATCHED, dtype=np.int64)
    at = np.clip(np.searchsorted(lines.starts, instants, side="right") - 1, 0, len(lines.paths) - 1)
    return np.asarray(lines.paths[at])


@dataclass(frozen=True)
class _Cut:
    """Lines cut at the borders of pieces: which piece, which lines, from which to which fraction of it."""

    piece: Column
    path: Column
    low: Column
    high: Column


def _cut(lines: StepLines, edges: Column) -> _Cut:
    """The lines of a step by its pieces. What the clock saw before and after the step's borders is left out; where it
    saw nothing of a piece, the piece has no line of the user's and gets those around it."""
    bounds = np.unique(np.concatenate((edges, np.clip(lines.starts, edges[0], edges[-1]))))
    start, end = bounds[:-1], bounds[1:]
    line = np.clip(np.searchsorted(lines.starts, start, side="right") - 1, 0, max(0, len(lines.starts) - 1))
    piece = np.searchsorted(edges, start, side="right") - 1
    weight = (end - start) * (_true_share(lines)[line] if len(lines.paths) else 1.0)
    total = np.bincount(piece, weights=weight, minlength=len(edges))
    weight = np.where(total[piece] > 0, weight, (end - start).astype(np.float64))
    total = np.bincount(piece, weights=weight, minlength=len(edges))
    upto = np.cumsum(weight)
    before = np.concatenate(([0.0], upto))[np.searchsorted(piece, piece)]
    high = (upto - before) / total[piece]
    first = np.concatenate(([True], piece[1:] != piece[:-1]))
    low = np.where(first, 0.0, np.concatenate(([0.0], high[:-1])))
    last = np.concatenate((first[1:], [True]))
    return _Cut(piece, _at(lines, start), low, np.where(last, 1.0, high))


def _true_share(lines: StepLines) -> Column:
    """The share of each interval that is not the clock's own."""
    lasted = np.maximum(lines.ends - lines.starts, 1)
    return np.asarray(np.clip(lines.weights / lasted, 0.0, 1.0))


def _ordered(parts: Sequence[HostSpans]) -> HostSpans:
    starts, ends, paths = (
        np.concatenate([getattr(part, key) for part in parts]) for key in ("starts", "ends", "paths")
    )
    filled = np.flatnonzero(ends > starts)
    order = filled[np.argsort(starts[filled], kind="stable")]
    return HostSpans(starts[order], ends[order], paths[order])
