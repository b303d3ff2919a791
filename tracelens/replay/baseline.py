"""The unchanged loop, replayed once for all questions: the baseline that every estimate is compared with.

In: a ReplayTrace. Out: its steady step time, and the Monte Carlo samples from which all ranges are computed, each with
the step time of the unchanged loop. No Edit enters here, so this is computed once per ReplayTrace.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracelens.replay import edits, step_gains
from tracelens.replay.calibration import RANGES, Calibration
from tracelens.replay.merged_launches import CompiledOp
from tracelens.replay.program import CompiledProgram, compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time

TRACES = 16
"""Kept baselines: of a trace, and of the same trace without one of its steps."""
SAMPLES = 24
"""Enough for a 10 % and a 90 % quantile that move by less than a third of the range between seeds."""


@dataclass(frozen=True, slots=True)
class MonteCarloSample:
    """One sample of what the recording does not show: which steps come, the host's speed, the machine's constants."""

    order: tuple[int, ...]
    row_ns: float
    costs: Calibration
    step_ns: float
    """Of the unchanged loop."""


@lru_cache(maxsize=TRACES)
def step_ns(trace: ReplayTrace) -> float:
    """Replayed with the middle of all ranges; on the replay's own scale, not on that of `ReplayTrace.base_ns`."""
    return step_time(_compiled(trace))


@lru_cache(maxsize=TRACES)
def step_times_ns(trace: ReplayTrace) -> tuple[float, ...]:
    """The same for each recorded step, repeated alone."""
    return step_gains.step_times(_compiled(trace))


@lru_cache(maxsize=TRACES)
def _compiled(trace: ReplayTrace) -> CompiledProgram:
    return compile_program(edits.apply(trace), trace.overhead.row_ns)


@lru_cache(maxsize=TRACES)
def samples(trace: ReplayTrace) -> tuple[MonteCarloSample, ...]:
    """The same samples for every question, so that two answers do not differ by chance."""
    rng = random.Random(0)
    # Three host speeds stand for their range: each is compiled once and shared by all samples.
    speeds = (trace.overhead.low_ns, trace.overhead.row_ns, trace.overhead.high_ns)
    unchanged = edits.PreparedEdits(trace, ())
    compiled = {row_ns: compile_program(unchanged.program(trace.calibration), row_ns).ops for row_ns in speeds}
    return tuple(_sample(unchanged, compiled, rng) for _ in range(SAMPLES))


def _sample(
    unchanged: edits.PreparedEdits, compiled: Mapping[float, tuple[tuple[CompiledOp, ...], ...]], rng: random.Random
) -> MonteCarloSample:
    trace = unchanged.trace
    order = tuple(rng.choices(range(len(trace.steps)), k=len(trace.steps)))
    row_ns = rng.choice((trace.overhead.low_ns, trace.overhead.row_ns, trace.overhead.high_ns))
    factors = {name: rng.uniform(*limits) for name, limits in RANGES.items()}
    costs = trace.calibration.with_factors(factors)
    program = unchanged.program(costs)
    return MonteCarloSample(order, row_ns, costs, step_time(CompiledProgram(program, compiled[row_ns]), order))
