"""The steady step time of a Program: passes until the state of the Simulator repeats.

In: a CompiledProgram. Out: ns per step. A Simulator whose state at the end of a window equals that at its start repeats
itself, so that one window is the answer. Where the host runs ever further ahead the state never repeats; then two
windows that took the same time per step are the answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tracelens.replay.program import CompiledProgram
from tracelens.replay.simulate import Simulator

LONGEST_CYCLE = 60
"""Steps of one repetition at most; a longer common period of steps and intervals is cut to whole intervals."""
AGREEMENT = 0.001
"""Where the cycle was cut, windows hold different steps; they agree where rates differ by less (replay.md §2.5)."""
MOST_DOUBLINGS = 4
OLDEST_NS = 2_000_000
"""What lies further back delays nothing any more: no latency, gap or return that the replay knows is as long."""


def step_time(compiled: CompiledProgram, order: Sequence[int] | None = None) -> float:
    """Steady time per step in ns when the recorded steps repeat in `order` (default: as recorded)."""
    return max(_steady(compiled, order), float(compiled.program.least_step_ns))


def _steady(compiled: CompiledProgram, order: Sequence[int] | None) -> float:
    order = range(compiled.program.recorded_steps) if order is None else order
    cycle, whole = _cycle(len(order), compiled.program.intervals)
    simulator = Simulator(compiled)
    simulator.run_steps(order, max(len(order), *compiled.program.intervals, compiled.program.depth + 2, 1))
    window, allowed = cycle, 0.0 if whole else AGREEMENT
    before = simulator.state(OLDEST_NS)
    previous = simulator.rate(order, window)
    if whole and simulator.state(OLDEST_NS) == before:
        return previous
    for _ in range(MOST_DOUBLINGS):
        # Twice as long, because the slowest clock of a window may be another in the next: two windows of one step can
        # agree on a rate that neither keeps up.
        window *= 2
        current = simulator.rate(order, window)
        if abs(current - previous) <= allowed * current:
            return (previous + current) / 2
        previous = current
    return previous


def window_time(compiled: CompiledProgram, queued_ns: Mapping[int, Sequence[int]]) -> float:
    """Time per step when the recorded steps run once, in order, as the recording found the GPU: before step k, each
    stream still has `queued_ns[k]` of work to do."""
    simulator, steps = Simulator(compiled), compiled.program.recorded_steps
    for step in range(steps):
        for stream, lasted in enumerate(queued_ns.get(step, ())):
            simulator.end[stream] = simulator.time + lasted
        simulator.run_steps(range(steps), 1)
    return simulator.time / steps


def _cycle(steps: int, intervals: tuple[int, ...]) -> tuple[int, bool]:
    """Steps of one repetition, and whether it is a whole one."""
    every = math.lcm(*intervals) if intervals else 1
    cycle = math.lcm(steps, every)
    return (cycle, True) if cycle <= LONGEST_CYCLE else (every * max(1, LONGEST_CYCLE // every), False)
