"""The four lower bounds of a step time: no order of the same work is faster than the largest of them.

In: a ReplayTrace, Edits. Out: `Bounds`, ns per step on the scale of `ReplayTrace.base_ns`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tracelens.model import Binding, Edit
from tracelens.replay import baseline
from tracelens.replay import edits as rewriting
from tracelens.replay.merged_launches import host_time, host_times
from tracelens.replay.program import KEPT, Program
from tracelens.replay.replay_trace import HostOp, HostOpKind, OpBlock, ReplayTrace, StepVariant, UntouchedSpan

LONGEST_CYCLE = 1_000
"""Steps over which several intervals are counted exactly; beyond, only the longest is."""
_NO_WORK: tuple[HostOpKind, ...] = ("background",)


@dataclass(frozen=True, slots=True)
class Bounds:
    """host: all calls and the time between them, without waits. stream: the busiest stream's work and the gaps between
    queued kernels. copy: the busier copy engine. loader: the producer's period, or
    what its workers need at least; 0 where the loader sets no pace that is known."""

    host_ns: int
    stream_ns: int
    copy_ns: int
    loader_ns: int

    @property
    def largest_ns(self) -> int:
        return max(self.host_ns, self.stream_ns, self.copy_ns, self.loader_ns)

    @property
    def binding(self) -> Binding:
        """Which limit is the largest; of equal ones the GPU's stream, then the host."""
        named: tuple[tuple[Binding, int], ...] = (
            ("stream", self.stream_ns),
            ("host", self.host_ns),
            ("copy", self.copy_ns),
            ("loader", self.loader_ns),
        )
        return max(named, key=lambda pair: pair[1])[0]


def step_bounds(trace: ReplayTrace, edits: Sequence[Edit] = ()) -> Bounds:
    """The limits after `edits`; without Edits those of the loop as it is, its waits not counted."""
    program = rewriting.apply(trace, edits)
    scale = trace.base_ns / baseline.step_ns(trace)
    whole = math.lcm(*program.intervals)
    cycle = whole if whole <= LONGEST_CYCLE else max(program.intervals)
    left_out = _NO_WORK if program.loader_period_ns is None else (*_NO_WORK, "loader")
    met = Counter(
        program.variant(recorded, step) for recorded in range(program.recorded_steps) for step in range(cycle)
    )
    host, streams, engines = 0, Counter[int](), Counter[str]()
    for variant, times in met.items():
        for load in _loads(program.variants[variant], trace.overhead.row_ns, left_out):
            host += times * load.host
            streams.update({stream: times * spent for stream, spent in load.streams.items()})
            engines.update({engine: times * spent for engine, spent in load.engines.items()})
    engines.pop("", None)
    share = scale / (program.recorded_steps * cycle)
    return Bounds(
        host_ns=round(host * share),
        stream_ns=round(max(streams.values(), default=0) * share),
        copy_ns=round(max(engines.values(), default=0) * share),
        loader_ns=round(
            max((program.loader_period_ns or 0) * scale, program.least_step_ns * trace.base_ns / trace.own_ns)
        ),
    )


def busiest_stream_ns(program: Program) -> int:
    """GPU time per recorded step of the stream that has most, with the gaps between queued kernels."""
    streams = Counter[int]()
    for variant in program.variants:
        for load in _loads(variant, 0.0, _NO_WORK):
            streams.update(load.streams)
    return round(max(streams.values(), default=0) / len(program.variants))


@dataclass(frozen=True, slots=True)
class _Load:
    """What some items ask of the host, of each stream and of each copy engine, ns."""

    host: int
    streams: Mapping[int, int]
    engines: Mapping[str, int]


def _loads(step: StepVariant, row_ns: float, left_out: tuple[HostOpKind, ...]) -> Iterator[_Load]:
    for element in step:
        if isinstance(element, OpBlock):
            yield _block_load(element, row_ns)
        elif isinstance(element, UntouchedSpan):
            yield from _loads(element.elements, row_ns, left_out)
        else:
            yield _summed_load((element,), row_ns, left_out)


@lru_cache(maxsize=KEPT)
def _block_load(block: OpBlock, row_ns: float) -> _Load:
    """OpBlocks are shared by all Programs of a ReplayTrace; none holds a loader's HostOp."""
    columns, rows = block.columns, block.span
    launched = columns.launch[rows]
    streams, durations = columns.stream[rows][launched], columns.duration_ns[rows][launched]
    spent = Counter[int]()
    for stream in np.unique(streams).tolist():
        own = streams == stream
        spent[stream] = int((durations + columns.spacing_ns[rows][launched])[own].sum())
    gap, issue = host_times(columns, row_ns)
    return _Load(int(gap[rows].sum() + issue[rows].sum()), spent, {})


def _summed_load(ops: Sequence[HostOp], row_ns: float, left_out: Sequence[str]) -> _Load:
    """Work of the training loop itself; where the loader sets a pace, the time inside it is waiting and no work."""
    streams, engines = Counter[int](), Counter[str]()
    for op in ops:
        if op.kind in ("launch", "staged", "blocking"):
            streams[op.stream] += op.duration_ns + op.spacing_ns
            engines[op.engine] += op.duration_ns
    working = (op for op in ops if not op.detached and op.kind not in left_out)
    return _Load(sum(sum(host_time(op, row_ns)) for op in working), streams, engines)
