"""What the host did in a step, as the trace has it: its operations in order, and stretches that have a name.

In: a Timeline, and the recorded garbage collections. Out: `StepOperations` per step, `Activities`. Operations are the
outermost ones of the threads that issue the loop's work; main waits while autograd's thread works, so their operations
are one sequence in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.owners.join import StepOperations
from tracelens.model import GarbageCollection, Timeline
from tracelens.trace import intervals, loader_iterators
from tracelens.trace.loader_iterators import LoaderIterators
from tracelens.trace.recorded_rows import loop_threads
from tracelens.trace.tables import TraceRows, among
from tracelens.trace.threads import BACKWARD, LOADER, MARKS, STEP

Column = npt.NDArray[Any]

OPTIMIZER = "Optimizer."
"""Begins `Optimizer.step#Adam.step` and `Optimizer.zero_grad#Adam.zero_grad`."""
_ANNOTATIONS = (BACKWARD, OPTIMIZER, STEP, LOADER)
"""Recorded as operators before 2022; they hold operations and are none."""
_STARTS_OR_WAITS = ("launch", "copy", "memset", "graph_launch", "device_sync", "stream_sync", "event_sync")
COLLECTION = "garbage collection (generation {})"


@dataclass(frozen=True)
class NamedSpans:
    """Spans that do not overlap, in order, each with a name."""

    starts: Column
    ends: Column
    names: tuple[str, ...]

    def at(self, instants: Column) -> Column:
        """Position of the span around each instant, -1 outside of all."""
        if not len(self.starts):
            return np.full(len(instants), -1, dtype=np.int64)
        last = np.searchsorted(self.starts, instants, side="right") - 1
        return np.where((last >= 0) & (instants < self.ends[np.maximum(last, 0)]), last, -1)

    @property
    def edges(self) -> Column:
        return np.concatenate((self.starts, self.ends))


@dataclass(frozen=True)
class Activities:
    """Stretches of the training thread that are known by name."""

    allocator: NamedSpans
    collector: NamedSpans
    dataloader: NamedSpans
    """Where the loop makes an iterator for each batch, what that takes is apart by its name."""
    iterators: NamedSpans
    """From where such an iterator is made until its first batch is there."""
    optimizer: NamedSpans
    backward: NamedSpans

    @property
    def edges(self) -> Column:
        """Where one of them begins or ends."""
        return np.concatenate([getattr(self, name).edges for name in self.__dataclass_fields__])


@dataclass(frozen=True)
class HostOperations:
    """Outermost operations and calls of the loop's threads, in order. `launches`: how often each asks for GPU work."""

    starts: Column
    ends: Column
    names: tuple[str, ...]
    launches: Column

    def of_steps(self, starts: Iterable[int], ends: Iterable[int]) -> list[StepOperations]:
        """Cut at the borders of steps."""
        cut = []
        for start, end in zip(starts, ends, strict=True):
            low, high = np.searchsorted(self.starts, (start, end))
            operations = StepOperations(
                int(start), int(end), self.names[low:high], self.starts[low:high], self.ends[low:high]
            )
            cut.append(operations)
        return cut


def host_operations(timeline: Timeline) -> HostOperations:
    """The operations of the loop's threads."""
    rows = TraceRows(timeline.trace)
    threads = loop_threads(timeline)
    operators = rows.named(rows.in_categories(("cpu_op",)), lambda name: not name.startswith(_ANNOTATIONS))
    operators = operators[np.isin(rows.column("tid")[operators], threads)]
    calls = timeline.tables.calls
    called = np.flatnonzero(among(calls["kind"], *_STARTS_OR_WAITS) & np.isin(calls["thread"], threads))
    starts, ends, thread = (
        np.concatenate((rows.column(key)[operators], calls[other][called]))
        for key, other in (("start_ns", "start_ns"), ("end_ns", "end_ns"), ("tid", "thread"))
    )
    words = [*rows.trace.names, *calls["name"].words]
    name = np.concatenate(
        (rows.column("name")[operators], calls["name"].codes[called] + np.int64(len(rows.trace.names)))
    )
    outer = _outermost(starts, ends, thread)
    order = outer[np.argsort(starts[outer], kind="stable")]
    launching = np.sort(calls["start_ns"][called][calls["op"][called] >= 0])
    count = np.searchsorted(launching, ends[order]) - np.searchsorted(launching, starts[order])
    return HostOperations(starts[order], ends[order], tuple(map(words.__getitem__, name[order].tolist())), count)


def activities(
    timeline: Timeline,
    operations: HostOperations,
    collections: Iterable[GarbageCollection],
    made: LoaderIterators | None = None,
) -> Activities:
    """The named stretches of the training thread. `made`: the iterators that it makes in each step."""
    rows = TraceRows(timeline.trace)
    marks = rows.in_categories(MARKS)
    optimizer = rows.named(marks, lambda name: name.startswith(OPTIMIZER))
    optimizer = optimizer[rows.column("tid")[optimizer] == timeline.main_thread]
    calls = timeline.tables.calls
    memory = calls[among(calls["kind"], "alloc", "free") & np.isin(calls["thread"], loop_threads(timeline))]
    optimizer_spans = rows.column("start_ns")[optimizer], rows.column("end_ns")[optimizer]
    return Activities(
        allocator=_named(memory["start_ns"], memory["end_ns"], memory["name"]),
        collector=_collector(timeline, collections),
        dataloader=_loader(timeline, made),
        iterators=_iterators(timeline, made),
        optimizer=_named(*optimizer_spans, rows.names(optimizer)),
        backward=_backward(rows, timeline, operations),
    )


def _outermost(starts: Column, ends: Column, threads: Column) -> Column:
    """Positions of the spans that lie in no other of their thread."""
    found = []
    for thread in np.unique(threads):
        mine = np.flatnonzero(threads == thread)
        order = mine[np.lexsort((-ends[mine], starts[mine]))]
        reach = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(ends[order])[:-1]))
        found.append(order[starts[order] >= reach])
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _named(starts: Column, ends: Column, names: Iterable[str]) -> NamedSpans:
    """The outermost of some spans of one thread."""
    words = list(names)
    order = _outermost(starts, ends, np.zeros(len(starts), dtype=np.int64))
    return NamedSpans(starts[order], ends[order], tuple(words[at] for at in order))


def _loader(timeline: Timeline, made: LoaderIterators | None) -> NamedSpans:
    loader = timeline.tables.loader
    spans = _named(loader["start_ns"], loader["end_ns"], loader["name"])
    if made is None or len(spans.starts) != len(loader):
        return spans
    ordered = loader["start_ns"] + np.where(made.fresh, made.order_ns, 0)
    starts, ends = np.concatenate((made.made, ordered)), np.concatenate((ordered, loader["end_ns"]))
    names = [loader_iterators.NAME] * len(loader) + list(loader["name"])
    chosen = np.flatnonzero(ends > starts)
    return _named(starts[chosen], ends[chosen], [names[at] for at in chosen.tolist()])


def _iterators(timeline: Timeline, made: LoaderIterators | None) -> NamedSpans:
    """In the kept steps, where lines are known."""
    if made is None:
        return NamedSpans(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), ())
    loader = timeline.tables.loader
    fresh = np.flatnonzero(made.fresh & np.isin(loader["step"], np.flatnonzero(timeline.tables.steps["kept"])))
    return _named(made.made[fresh], loader["end_ns"][fresh], [loader_iterators.NAME] * len(fresh))


def _collector(timeline: Timeline, collections: Iterable[GarbageCollection]) -> NamedSpans:
    zero = timeline.trace.base_unix_ns
    mine = [each for each in collections if zero is not None and each.thread == timeline.main_thread]
    starts, ends = (
        np.array([getattr(each, key) - (zero or 0) for each in mine], dtype=np.int64)
        for key in ("start_unix_ns", "end_unix_ns")
    )
    return _named(starts, ends, [COLLECTION.format(each.generation) for each in mine])


def _backward(rows: TraceRows, timeline: Timeline, operations: HostOperations) -> NamedSpans:
    """From the first node that autograd evaluates to the last, as long as the main thread does nothing else."""
    nodes = rows.named(rows.in_categories(MARKS), lambda name: name.startswith(BACKWARD))
    nodes = nodes[np.isin(rows.column("tid")[nodes], loop_threads(timeline))]
    inside = intervals.union(rows.column("start_ns")[nodes], rows.column("end_ns")[nodes])
    starts, ends = inside
    if not len(starts):
        return NamedSpans(starts, ends, ())
    others = operations.starts[~intervals.inside(inside, operations.starts)]
    apart = np.searchsorted(others, starts[1:]) > np.searchsorted(others, ends[:-1])
    first = np.concatenate(([True], apart))
    last = np.concatenate((apart, [True]))
    return NamedSpans(starts[first], ends[last], ("backward",) * int(first.sum()))
