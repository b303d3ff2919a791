"""The data types of the replay: `HostOp`, `ReplayTrace` and the small types that they are made of.

A HostOp is one call of the training loop's host, with the GPU work that it starts. The time it waited when it was
recorded is not part of it: the replay computes that anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tracelens.model import StepTimes
from tracelens.replay.calibration import Calibration

HostOpKind = Literal[
    "work", "launch", "staged", "blocking", "sync", "event_sync", "record", "stream_wait", "loader", "background"
]
Engine = Literal["", "h2d", "d2h"]

Integers = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]

ALL_STREAMS = -1


class HostOp(NamedTuple):
    """One host call (or a span of host work) of one step, in host order.

    work        only host time
    launch      a GPU op is queued; the call returns after its issue time
    staged      a copy from pageable memory: the driver copies the source on the host before the call returns
    blocking    a copy into pageable memory: the call returns when the copy is done
    sync        the host waits for a stream, or for all of them; event_sync: for a recorded event
    record, stream_wait   an event after the work queued so far; later work of a stream behind an event
    loader      the main thread inside the DataLoader's `__next__`
    background  Python work of another thread per batch: it needs the interpreter, which the training loop gives away
                only while it waits or copies; what is left at the next batch delays it
    """

    kind: HostOpKind
    gap_ns: int = 0
    """Host time since the previous HostOp."""
    issue_ns: int = 0
    """The call's own time, without any wait. For `staged`: the driver's copy of the source."""
    rows: int = 0
    """Rows the profiler recorded on this thread in gap and call: each of them cost host time."""
    stream: int = ALL_STREAMS
    """Position in `ReplayTrace.streams`; what a sync waits for, where an op runs."""
    duration_ns: int = 0
    """GPU time of the op. For `staged`: of its transfer alone."""
    latency_ns: int = 0
    """Call start to op start on an empty stream."""
    spacing_ns: int = 0
    """End of the stream's previous op to the start of this one when it is queued."""
    return_ns: int = 0
    """Completion to return of a wait. For `staged`: return of the call to the end of the op."""
    engine: Engine = ""
    """The copy engine that runs the op; one op at a time."""
    size: int = 0
    """Bytes copied."""
    event: str = ""
    """Name of the event that is recorded or waited for."""
    lag: int = 0
    """Which record of the event: 0 the latest, 1 the one before."""
    wait: int = -1
    """Position in the Timeline's waits, -1 none."""
    pair: int = -1
    """A copy and the synchronize right behind it share a number: one call of the user's."""
    call: int = -1
    """Position in the Timeline's calls."""
    detached: bool = False
    """Made by another thread: it keeps its place in host order and costs the training loop nothing."""
    name: str = ""
    """The host call."""
    op: str = ""
    """The GPU op it starts."""


@dataclass(frozen=True, slots=True, eq=False)
class OpColumns:
    """The launches and host work of a ReplayTrace that no Edit touches, as columns with one row per HostOp: a loop may
    launch 100,000 times per recording. Columns have the names of a HostOp's fields. Compared by identity."""

    launch: Bools
    """A launch; else host work."""
    gap_ns: Integers
    issue_ns: Integers
    rows: Integers
    stream: Integers
    duration_ns: Integers
    latency_ns: Integers
    spacing_ns: Integers
    wait: Integers
    call: Integers
    detached: Bools
    name: Integers
    op: Integers
    words: tuple[str, ...]
    """What the codes in `name` and `op` mean."""
    edges: Integers
    """Block i is made of the rows from `edges[i]` to `edges[i + 1]`."""

    def host_ops(self, start: int, stop: int) -> Iterator[HostOp]:
        """Some rows as HostOps."""
        columns = (
            self.gap_ns, self.issue_ns, self.rows, self.stream, self.duration_ns, self.latency_ns, self.spacing_ns,
            self.wait, self.call, self.detached, self.name, self.op, self.launch,
        )  # fmt: skip
        for *times, wait, call, detached, name, op, launch in zip(
            *(column[start:stop].tolist() for column in columns), strict=True
        ):
            gap, issue, rows, stream, duration, latency, spacing = times
            yield HostOp(
                "launch" if launch else "work", gap, issue, rows, stream, duration, latency, spacing,
                wait=wait, call=call, detached=detached, name=self.words[name], op=self.words[op],
            )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class OpBlock:
    """Launches and host work that no Edit touches, in order: one block of some OpColumns. Compared by identity."""

    columns: OpColumns
    index: int

    @property
    def span(self) -> slice:
        """Its rows."""
        return slice(int(self.columns.edges[self.index]), int(self.columns.edges[self.index + 1]))

    @property
    def ops(self) -> tuple[HostOp, ...]:
        """Its HostOps, made anew: for pictures and tests, too slow for a replay."""
        return tuple(self.columns.host_ops(self.span.start, self.span.stop))


_NUMBERS, _FLAGS = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
_NO_ROWS = OpColumns(
    launch=_FLAGS, gap_ns=_NUMBERS, issue_ns=_NUMBERS, rows=_NUMBERS, stream=_NUMBERS, duration_ns=_NUMBERS,
    latency_ns=_NUMBERS, spacing_ns=_NUMBERS, wait=_NUMBERS, call=_NUMBERS, detached=_FLAGS, name=_NUMBERS,
    op=_NUMBERS, words=(), edges=_NUMBERS,
)  # fmt: skip

RecordedStep = tuple[HostOp | OpBlock, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UntouchedSpan:
    """What lies between two sites that a set of Edits acts on, from the edge of one OpBlock to that of
    another. Compared by identity, so that it is compiled once for all calibrations."""

    elements: RecordedStep


StepVariant = tuple[HostOp | OpBlock | UntouchedSpan, ...]
"""A step of a Program."""


def in_blocks(plain: Bools) -> Bools:
    """Which HostOps of a step belong to OpBlocks, from which of them are launches or host work. What follows a copy, a
    wait or the loader directly stays a HostOp of its own, because Edits may take host time out of it."""
    inside = plain.copy()
    inside[:1] = False
    inside[1:] &= plain[:-1]
    return inside


def block_columns(steps: Iterable[RecordedStep]) -> OpColumns:
    """The columns that the OpBlocks of these steps share; empty ones where there is no block."""
    blocks = (element for step in steps for element in step if isinstance(element, OpBlock))
    first = next(blocks, None)
    return _NO_ROWS if first is None else first.columns


def all_host_ops(step: StepVariant) -> Iterator[HostOp]:
    """All HostOps of a step, in order."""
    for element in step:
        if isinstance(element, OpBlock):
            yield from element.ops
        elif isinstance(element, UntouchedSpan):
            yield from all_host_ops(element.elements)
        else:
            yield element


def editable_host_ops(step: RecordedStep) -> Iterator[HostOp]:
    """The HostOps outside of OpBlocks: those that Edits may change."""
    return (element for element in step if isinstance(element, HostOp))


def is_launch_or_host_work(op: HostOp) -> bool:
    """Host work, or a launch that is no copy: nothing that waits, and nothing that a wait refers to."""
    return op.kind == "work" or (op.kind == "launch" and not op.engine)


@dataclass(frozen=True, slots=True)
class LoaderPace:
    """What is known of the DataLoader: its workers (None unknown) and the period of a producer that is too slow."""

    workers: int | None
    period_ns: int | None = None
    iterators: float = 0.0
    """Made per step: each starts its workers, and its first batch is made while the loop waits."""
    order_ns: int = 0
    """Per recorded step, of the loader's time: which samples come next, found out by the main thread in any case."""


@dataclass(frozen=True, slots=True)
class ProfilerOverhead:
    """What the profiler added to the host, per recorded row. `fitted`: the unprofiled step time determined it."""

    row_ns: float
    low_ns: float
    high_ns: float
    fitted: bool


@dataclass(frozen=True, slots=True)
class StallWaits:
    """What the replay needs of a Stall: the waits that it consists of, and how long they block the host per step."""

    waits: frozenset[int]
    wait_ns: int = 0


@dataclass(frozen=True, slots=True)
class ReplayErrors:
    """How well the replay repeats what was measured, as shares of the step. `anchor` None: no unprofiled step time."""

    recorded: float
    anchor: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ReplayTrace:
    """The kept steps of one recording, ready to be replayed. Immutable; Edits make a Program of it. Compared by
    identity, so that answers can be cached."""

    steps: tuple[RecordedStep, ...]
    streams: tuple[str, ...]
    stalls: Mapping[str, StallWaits]
    calibration: Calibration
    overhead: ProfilerOverhead
    loader: LoaderPace
    recorded_ns: int
    """Mean duration of the kept steps under the profiler."""
    steady_ns: int
    """What the replay of the recorded steps settles at; longer where the window closed before a queue was full."""
    unprofiled_ns: int | None
    errors: ReplayErrors
    unresolved_waits: int = 0
    """Stream waits per step between busy streams whose event could not be told."""
    notes: tuple[str, ...] = ()
    shown_ns: int | None = None
    """The step time that answers are about, where it is not the replay's own: measured beside a changed version, or the
    typical unprofiled step, where the replay meets their mean. A gain is the same part of each."""
    python: bool = True
    """False for a C++ program."""
    pace: float = 1.0
    """Recorded host times were multiplied by this: see `trace_builder`."""
    row_starts: Integers = field(default_factory=lambda: _NUMBERS)
    """When each row began that the profiler recorded on the loop's threads, in order."""

    @property
    def base_ns(self) -> int:
        """The step time that every prediction starts from."""
        return self.shown_ns or self.own_ns

    @property
    def own_ns(self) -> int:
        """The step time that the replay meets."""
        return self.unprofiled_ns or self.steady_ns

    def shown_on(self, steps: StepTimes) -> ReplayTrace:
        """With the baseline as the step to show, where it was not taken from the recorded steps, which this knows."""
        unprofiled_ns = steps.unprofiled_median_ns if self.unprofiled_ns is not None else None
        return replace(self, shown_ns=steps.measured_ns or unprofiled_ns)
