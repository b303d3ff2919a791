"""Which batches are the first of a new DataLoader iterator, and what making that iterator takes of the main thread.

In: a Timeline, what the recording counted beside its trace. Out: `LoaderIterators`. torch draws a seed for each
iterator before it is asked for a batch: that row tells a new one. Its order of the samples is made in the main thread
when the first batch is asked for, with or without workers: `randperm` and a list of its numbers, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import NEW_ITERATOR, RankRecording, Timeline
from tracelens.trace.tables import TraceRows, among

Column = npt.NDArray[Any]

NAME = f"enumerate(DataLoader)#{NEW_ITERATOR}"
"""What making an iterator is called, as torch calls the rest of the loader's time."""
EACH_STEP = 0.5
"""Iterators per step from which on the loop makes them, and not the end of an epoch: in every other step at least."""
_SEED = ("aten::empty", "aten::random_", "aten::item")
_DRAWING = ("aten::randperm", "aten::multinomial")
_ORDER = (*_SEED, *_DRAWING, "aten::_local_scalar_dense", "aten::resolve_conj", "aten::resolve_neg")
_LIST_FACTOR = 3
"""Where no attributed step timed it, what follows the draws is the list of them up to so many times what they took: 1.9
ms of 1.3 for 100,000 numbers with torch 2.11, and 1.8 of 0.2 for 60,000 with 2.13."""
_ALONE = "SingleProcess"
_STARTS = ("launch", "copy", "memset", "graph_launch")


@dataclass(frozen=True)
class LoaderIterators:
    """Per row of the Timeline's `loader` table, ns on the host's clock."""

    fresh: Column
    """Whether it is asked for the first batch of an iterator."""
    made: Column
    """Where making that iterator begins; where the row begins for any other."""
    order_ns: Column
    """How long the row begins with what the main thread does with any number of workers."""
    per_step: float
    """Iterators made per step, without the loop's first where the recording counted them."""

    @property
    def each_step(self) -> bool:
        """Whether the loop makes an iterator in each step, or in every other."""
        return self.per_step >= EACH_STEP


def find(timeline: Timeline, recording: RankRecording | None) -> LoaderIterators:
    """The iterators of the recorded steps. How long asking the sampler takes is known as its share in the attributed
    steps, where they timed it, and else from what the rows of its draws allow."""
    loader, noted = timeline.tables.loader, _noted(recording)
    starts, lengths = loader["start_ns"].astype(np.int64), (loader["end_ns"] - loader["start_ns"]).astype(np.int64)
    made, drawn = _seeded(timeline)
    fresh = made >= 0
    order, least, most = (
        np.array([getattr(one, name) for one in drawn], dtype=np.int64) for name in ("likely_ns", "least_ns", "most_ns")
    )
    timed = np.isin(loader["step"], np.flatnonzero(timeline.tables.steps["attributed"]))
    words = loader["name"]
    alone = np.array([_ALONE in word for word in words.words] + [False])[words.codes]  # with workers it asks elsewhere
    for calls, group in ((noted.first, fresh & alone), (noted.other, ~fresh & alone)):
        share = _share(calls, lengths[timed & group])
        if share is not None:
            told = np.rint(share * lengths).astype(np.int64)
            order = np.where(group, np.clip(told, least, np.minimum(most, lengths)), order)
    return LoaderIterators(fresh, np.where(fresh, made, starts), order, _per_step(timeline, fresh, noted))


def _seeded(timeline: Timeline) -> tuple[Column, list[_Drawn]]:
    """Per call for a batch where making its iterator begins, -1 where it has been there before; and its draws."""
    loader = timeline.tables.loader
    made, drawn = np.full(len(loader), -1, dtype=np.int64), [NOTHING_DRAWN] * len(loader)
    if not len(loader):
        return made, drawn
    rows, previous = _MainRows.read(timeline), -(1 << 62)
    for at, (start, end) in enumerate(zip(loader["start_ns"].tolist(), loader["end_ns"].tolist(), strict=True)):
        seeded = rows.seeded(previous, start)
        if seeded is not None:
            made[at], drawn[at] = seeded, rows.drawn(start, end)
        previous = max(previous, end)
    return made, drawn


def _share(calls: _SamplerCalls, lengths: Column) -> float | None:
    """Which part of the time for a batch asking the sampler takes; None where the two are not of the same batches."""
    if not calls.batches or len(lengths) != calls.batches or not lengths.sum():
        return None
    return min(1.0, calls.ns / float(lengths.sum()))


def _per_step(timeline: Timeline, fresh: Column, noted: _Noted) -> float:
    """As the kept steps show it where they hold many; the start of an epoch they hold by chance, so that is counted
    over the whole recording."""
    steps = timeline.tables.steps
    kept = np.flatnonzero(steps["kept"])
    seen = float(np.isin(timeline.tables.loader["step"][fresh], kept).sum() / len(kept)) if len(kept) else 0.0
    if seen >= EACH_STEP:
        return seen
    return noted.per_step if noted.per_step is not None else 0.0


@dataclass(frozen=True)
class _SamplerCalls:
    """How often a sampler was asked for the samples of a batch in the attributed steps, and how long that took."""

    batches: int = 0
    ns: int = 0


@dataclass(frozen=True)
class _Noted:
    """What the recording counted: iterators per step, and the calls of samplers, by whether the iterator was new."""

    per_step: float | None = None
    first: _SamplerCalls = _SamplerCalls()
    other: _SamplerCalls = _SamplerCalls()


def _noted(recording: RankRecording | None) -> _Noted:
    """Of the loader with the most iterators, which is the one of the loop where any makes one per step."""
    meta = recording.meta if recording is not None else {}
    loaders = [loader for loader in meta.get("loaders") or () if isinstance(loader, Mapping)]
    counted = [(count, loader) for loader in loaders if isinstance(count := loader.get("iterators"), int)]
    steps = meta.get("steps_seen")
    if not counted or not isinstance(steps, int) or steps < 1:
        return _Noted()
    count, loader = max(counted, key=lambda pair: pair[0])
    index = loader.get("index") or {}
    first, other = (
        _SamplerCalls(index.get(f"{name}_batches") or 0, index.get(f"{name}_ns") or 0) for name in ("first", "other")
    )
    return _Noted(max(0, count - 1) / steps, first, other)


@dataclass(frozen=True)
class _Drawn:
    """How long a call for a batch draws and lists the order of the samples: to the end of its last row at least, to the
    next row at most."""

    least_ns: int
    likely_ns: int
    most_ns: int


NOTHING_DRAWN = _Drawn(0, 0, 1 << 62)


@dataclass(frozen=True)
class _MainRows:
    """Operators of the main thread in order of start, and when it starts work on the GPU."""

    starts: Column
    ends: Column
    names: tuple[str, ...]
    codes: Column
    launches: Column

    @classmethod
    def read(cls, timeline: Timeline) -> _MainRows:
        rows, calls = TraceRows(timeline.trace), timeline.tables.calls
        found = rows.in_categories(("cpu_op",))
        found = found[rows.column("tid")[found] == timeline.main_thread]
        started = calls["start_ns"][among(calls["kind"], *_STARTS)]
        starts, ends, codes = (rows.column(key)[found] for key in ("start_ns", "end_ns", "name"))
        return cls(starts, ends, timeline.trace.names, codes, np.sort(started))

    @cached_property
    def seeds(self) -> Column:
        """Where `empty().random_().item()` was called, and not inside of another operator: `randint` draws alike."""
        empty, drawn, read = (self._is(name) for name in _SEED)
        reached = np.maximum.accumulate(self.ends) if len(self.ends) else self.ends
        outside = np.concatenate(([True], reached[:-1] <= self.starts[1:])) if len(reached) else empty
        at = np.flatnonzero(empty[:-2] & drawn[1:-1] & read[2:] & outside[:-2])
        return np.asarray(self.starts[at])

    def seeded(self, begin: int, end: int) -> int | None:
        """Where torch draws the seed of an iterator that is asked for a batch at `end`; None where none is made after
        `begin`. Whatever starts work on the GPU after a seed was drawn says that it was another one's."""
        last = int(np.searchsorted(self.launches, end)) - 1
        begin = max(begin, int(self.launches[last])) if last >= 0 else begin
        first = int(np.searchsorted(self.seeds, begin))
        return int(self.seeds[first]) if first < len(self.seeds) and self.seeds[first] < end else None

    def drawn(self, begin: int, end: int) -> _Drawn:
        """What a call for a batch begins with: rows that draw the order of the samples, and then a list of it."""
        low, high = (int(edge) for edge in np.searchsorted(self.starts, (begin, end)))
        reached, drawing, limit = begin, 0, end
        for at in range(low, high):
            if self.starts[at] < reached:
                continue
            if self._name(at) not in _ORDER:
                limit = int(self.starts[at])
                break
            drawing += int(self.ends[at] - self.starts[at]) if self._name(at) in _DRAWING else 0
            reached = int(self.ends[at])
        if not drawing:
            return NOTHING_DRAWN
        return _Drawn(reached - begin, min(limit, reached + _LIST_FACTOR * drawing) - begin, limit - begin)

    def _name(self, row: int) -> str:
        return self.names[int(self.codes[row])]

    def _is(self, name: str) -> Column:
        code = self.names.index(name) if name in self.names else -1
        return np.asarray(self.codes == code)
