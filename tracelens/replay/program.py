"""A Program, and its compiled form for many passes, in which consecutive launches are merged into one operation.

In: the host operations of each step and the order in which steps repeat. Out: `CompiledProgram`: host times without the
profiler's overhead, and between two waits one (max,+) map per stream, so that the cost of a pass grows with the number
of waits and not of launches. OpBlocks and UntouchedSpans of a ReplayTrace are compiled once and shared by all Programs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from tracelens.replay.merged_launches import LONGEST_RUN, CompiledOp, merged, merged_blocks
from tracelens.replay.replay_trace import HostOp, OpBlock, StepVariant, UntouchedSpan

KEPT = 1 << 15
"""Compiled pieces that are kept: a loop that waits 300 times per step has 7,000, at each of three host speeds."""


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


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A Program made ready for repeated passes."""

    program: Program
    ops: tuple[tuple[CompiledOp, ...], ...]


def compile_program(
    program: Program, row_ns: float, *, merge: bool = True, only: Collection[int] | None = None
) -> CompiledProgram:
    """Take the profiler's cost per recorded row out of the host times and collapse runs of launches. `only`: the
    variants that will be run, all by default; the others stay empty."""
    longest = LONGEST_RUN if merge else 1
    return CompiledProgram(
        program,
        tuple(
            _compile(host_ops, row_ns, longest) if only is None or number in only else ()
            for number, host_ops in enumerate(program.variants)
        ),
    )


# ---------------------------------------------------------------------------------------------------- compiling


def _compile(step: StepVariant, row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    ops: list[CompiledOp] = []
    run: list[HostOp] = []
    for element in step:
        if isinstance(element, HostOp):
            run.append(element)
            continue
        ops += merged(tuple(run), row_ns, longest)
        if isinstance(element, OpBlock):
            ops += _compile_block(element, row_ns, longest)
        else:
            ops += _compile_span(element, row_ns, longest)
        run = []
    return (*ops, *merged(tuple(run), row_ns, longest))


@lru_cache(maxsize=KEPT)
def _compile_span(span: UntouchedSpan, row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    """Shared by all Programs of one set of Edits. No run of launches crosses its ends."""
    return _compile(span.elements, row_ns, longest)


def _compile_block(block: OpBlock, row_ns: float, longest: int) -> tuple[CompiledOp, ...]:
    if longest == LONGEST_RUN:
        return merged_blocks(block.columns, row_ns)[block.index]
    return merged(block.ops, row_ns, longest)
