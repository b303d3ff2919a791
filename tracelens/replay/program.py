"""A Program, and its compiled form for many passes, in which consecutive launches are merged into one operation.

In: the host operations of each step and the order in which steps repeat. Out: `CompiledProgram`: host times without the
profiler's overhead, and between two waits one (max,+) map per stream, so that the cost of a pass grows with the number
of waits and not of launches. OpBlocks and UntouchedSpans of a ReplayTrace are compiled once and shared by all Programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tracelens.replay.replay_trace import HostOp, OpBlock, StepVariant, UntouchedSpan, is_launch_or_host_work

LEAST_HOST_SHARE = 0.2
"""The profiler's overhead is subtracted from a host time down to this share of it: Python always takes some time."""
LONGEST_RUN = 32
"""Launches merged into one operation: the launch-queue limit (about 1,000) is kept to within this many."""
KEPT = 1 << 15
"""Compiled pieces that are kept: a loop that waits 300 times per step has 7,000, at each of three host speeds."""
_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Program:
    """Steps to repeat. Step j of the replay is `variants[k * 2**len(intervals) + flags]`: k the recorded step it
    repeats, and bit i of flags set when step j is the last of its `intervals[i]`."""

    variants: tuple[StepVariant, ...]
    streams: int
    queue_limit: int
    staging_bytes: int
    intervals: tuple[int, ...] = ()
    depth: int = 0
    loader_period_ns: int | None = None
    """Per step."""
    loads: int = 1
    """Batches that the training loop asks for in all recorded steps together."""
    least_step_ns: int = 0
    """No step is shorter in the long run: what the workers need for its batches if they never rest."""

    @property
    def recorded_steps(self) -> int:
        return len(self.variants) >> len(self.intervals)

    def variant(self, recorded: int, step: int) -> int:
        flags = sum(1 << i for i, interval in enumerate(self.intervals) if step % interval == interval - 1)
        return (recorded << len(self.intervals)) | flags


class StreamAdvance(NamedTuple):
    """What a run of launches does to one stream: end = max(host + after_host, end + after_end)."""

    stream: int
    after_host: int
    after_end: int
    launches: int
    last_ns: int


class CompiledOp(NamedTuple):
    """A compiled item: `gap` and `issue` with the profiler's cost taken out; `parts` only for a run of launches."""

    host_op: HostOp
    gap: int
    issue: int
    parts: tuple[StreamAdvance, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A Program made ready for repeated passes."""

    program: Program
    ops: tuple[tuple[CompiledOp, ...], ...]


def compile_program(program: Program, row_ns: float, *, merge: bool = True) -> CompiledProgram:
    """Take the profiler's cost per recorded row out of the host times and collapse runs of launches."""
    longest = LONGEST_RUN if merge else 1
    return CompiledProgram(program, tuple(_compile(host_ops, row_ns, longest) for host_ops in program.variants))


def host_time(host_op: HostOp, row_ns: float) -> tuple[int, int]:
    """(gap, issue) of an item without the profiler's cost. A driver's copy of the source is not slowed by rows."""
    fixed = host_op.kind in ("staged", "blocking", "sync", "event_sync")
    total = host_op.gap_ns if fixed else host_op.gap_ns + host_op.issue_ns
    if total <= 0 or not host_op.rows:
        return host_op.gap_ns, host_op.issue_ns
    share = max(LEAST_HOST_SHARE, (total - row_ns * host_op.rows) / total)
    return round(host_op.gap_ns * share), host_op.issue_ns if fixed else round(host_op.issue_ns * share)


# ---------------------------------------------------------------------------------------------------- compiling


def _compile(step: StepVariant, row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    ops: list[CompiledOp] = []
    run: list[HostOp] = []
    for element in step:
        if isinstance(element, HostOp):
            run.append(element)
            continue
        ops += _merge_launches(tuple(run), row_ns, longest)
        ops += (_compile_block if isinstance(element, OpBlock) else _compile_span)(element, row_ns, longest)
        run = []
    return (*ops, *_merge_launches(tuple(run), row_ns, longest))


@lru_cache(maxsize=KEPT)
def _compile_span(span: UntouchedSpan, row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    """Shared by all Programs of one set of Edits. No run of launches crosses its ends."""
    return _compile(span.elements, row_ns, longest)


@lru_cache(maxsize=KEPT)
def _compile_block(block: OpBlock, row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    """OpBlocks are shared by all Programs of a ReplayTrace: each is compiled once per host speed."""
    return _merge_launches(block.ops, row_ns, longest)


def _merge_launches(host_ops: tuple[HostOp, ...], row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    ops: list[CompiledOp] = []
    run = _LaunchRun()
    for host_op in host_ops:
        gap, issue = (0, 0) if host_op.detached else host_time(host_op, row_ns)
        plain = is_launch_or_host_work(host_op)
        if plain:
            run.add(host_op, gap, issue)
        if run.count and (not plain or run.count >= longest):
            ops.append(run.op())
            run = _LaunchRun()
        if not plain:
            ops.append(CompiledOp(host_op, gap, issue))
    if run.count:
        ops.append(run.op())
    return tuple(ops)


class _LaunchRun:
    """Launches and host work being merged into one operation."""

    def __init__(self) -> None:
        self.count = self.advance = self.gap = 0
        self.name = self.op_name = ""
        self.parts: dict[int, tuple[int, int, int, int]] = {}

    def add(self, host_op: HostOp, gap: int, issue: int) -> None:
        self.count += 1
        self.advance += gap
        self.gap, self.name = self.advance, host_op.name
        if host_op.kind == "launch":
            after_host, after_end, count, _ = self.parts.get(host_op.stream, (_NEVER, 0, 0, 0))
            host = max(self.advance + host_op.latency_ns, after_host + host_op.spacing_ns) + host_op.duration_ns
            after_end += host_op.spacing_ns + host_op.duration_ns
            self.op_name = host_op.op or host_op.name
            self.parts[host_op.stream] = (host, after_end, count + 1, host_op.duration_ns)
        self.advance += issue

    def op(self) -> CompiledOp:
        parts = tuple(StreamAdvance(stream, *values) for stream, values in self.parts.items())
        return CompiledOp(HostOp("work", name=self.name, op=self.op_name), self.gap, self.advance - self.gap, parts)
