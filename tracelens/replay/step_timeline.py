"""One steady step as bars on lanes, before or after Edits: the data of a picture of the replay.

In: a ReplayTrace, Edits. Out: a DrawnStep with the lane `host` and one lane per GPU stream, ns since the start of the
window. In the window launches are not merged, because the picture shows each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tracelens.model import DrawnSpan, DrawnStep, Edit
from tracelens.replay import edits
from tracelens.replay.merged_launches import LONGEST_RUN
from tracelens.replay.program import CompiledProgram, Program, compile_program
from tracelens.replay.replay_trace import HostOp, OpBlock, ReplayTrace, UntouchedSpan
from tracelens.replay.simulate import LaneSpan, Simulator

MOST_ROUNDS = 40
"""A queue of 1,000 launches that gains a fiftieth per step is full after 50 times the steps that it holds."""
SAME_PACE = 0.99
COPY_LANE = "copy stream"
"""The lane of the stream that a prefetch Edit adds."""


def draw_step(trace: ReplayTrace, edit_set: tuple[Edit, ...], scheme: str | None) -> DrawnStep:
    """A window as long as the mean step, from the start of a typical step on the host's clock."""
    program = edits.apply(trace, edit_set)
    order = range(program.recorded_steps)
    merged = compile_program(program, trace.overhead.row_ns)
    simulator = Simulator(merged)
    count = max(program.recorded_steps, program.depth + 2, *program.intervals)
    begun = _warm_up(simulator, count)
    marks = [simulator.time]
    for _ in range(count):
        simulator.run_steps(order, 1)
        marks.append(simulator.time)
    mean = round((marks[-1] - marks[0]) / count)
    lengths = [end - begin for begin, end in pairwise(marks)]
    typical = begun + min(range(count), key=lambda step: abs(lengths[step] - mean))
    return DrawnStep(scheme, mean, tuple(_drawn(trace, merged, typical, mean)))


def _warm_up(simulator: Simulator, count: int) -> int:
    """Steps until the host keeps to the pace of the slowest clock; before, it runs ahead while launch queues fill."""
    order = range(simulator.compiled.program.recorded_steps)
    simulator.run_steps(order, count)
    for _ in range(MOST_ROUNDS):
        began = simulator.time
        slowest_ns = simulator.rate(order, count)
        if simulator.time - began >= SAME_PACE * slowest_ns * count:
            break
    return simulator.steps


def _drawn(trace: ReplayTrace, merged: CompiledProgram, step: int, length_ns: int) -> Iterator[DrawnSpan]:
    """The bars of a window from the start of a step. Each launch is simulated by itself as far back as work may still
    be queued at that time, and to the end of the step after it, which may be in the window."""
    program = merged.program
    order = range(program.recorded_steps)
    first = step - min(step, _steps_of_full_queues(program))
    shown = {program.variant(order[number % len(order)], number) for number in range(first, step + 2)}
    simulator = Simulator(merged)
    simulator.run_steps(order, first)
    simulator.compiled = compile_program(program, trace.overhead.row_ns, merge=False, only=shown)
    simulator.log = []
    simulator.run_steps(order, step - first)
    start = simulator.time
    simulator.run_steps(order, 2)
    return _cut(simulator.log, start, start + length_ns, trace.streams)


def _steps_of_full_queues(program: Program) -> int:
    """How many steps it takes to launch as much as all launch queues hold, and one more, since runs are merged."""
    launched = sum(_launches(element) for variant in program.variants for element in variant) / len(program.variants)
    return 1 + math.ceil((program.queue_limit + LONGEST_RUN) * program.streams / max(1, launched))


def _launches(element: HostOp | OpBlock | UntouchedSpan) -> int:
    if isinstance(element, OpBlock):
        return int(np.count_nonzero(element.columns.launch[element.span]))
    if isinstance(element, UntouchedSpan):
        return sum(map(_launches, element.elements))
    return int(element.kind == "launch" and not element.engine)


def _cut(spans: Iterable[LaneSpan], start: int, end: int, streams: Sequence[str]) -> Iterator[DrawnSpan]:
    names = (*streams, COPY_LANE)
    for span in spans:
        if span.end_ns > start and span.start_ns < end and span.end_ns > span.start_ns:
            lane = span.lane if span.lane == "host" else names[int(span.lane)]
            yield DrawnSpan(lane, span.name, max(span.start_ns, start) - start, min(span.end_ns, end) - start)
