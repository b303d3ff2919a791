"""The loop as it is, replayed once for all questions: what every "what if" is compared with.

In: a Tape. Out: its steady step time; and the draws from which the ranges of all answers come, each with the step time
of the unchanged loop under it. Apart from the estimate, because no Edit enters: it is found once per Tape.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracelens.replay import edits
from tracelens.replay.calibrate import RANGES, Calibration
from tracelens.replay.items import Tape
from tracelens.replay.program import Compiled, Op, compile_program
from tracelens.replay.steady import step_time

DRAWS = 24
"""Enough for a 10 % and a 90 % quantile that move by less than a third of the range between seeds."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One guess at what no recording tells: which steps come, how fast the host is, the machine's constants."""

    order: tuple[int, ...]
    row_ns: float
    costs: Calibration
    step_ns: float
    """Of the unchanged loop."""


@lru_cache(maxsize=4)
def step_ns(tape: Tape) -> float:
    """Replayed with the middle of everything; on the replay's own scale, not on that of `Tape.base_ns`."""
    return step_time(compile_program(edits.apply(tape), tape.overhead.row_ns))


@lru_cache(maxsize=4)
def draws(tape: Tape) -> tuple[Draw, ...]:
    """The same draws for every question, so that answers differ by what was asked and not by chance."""
    rng = random.Random(0)
    # Three host speeds stand for their range: each is compiled once and shared by all draws.
    speeds = (tape.overhead.low_ns, tape.overhead.row_ns, tape.overhead.high_ns)
    unchanged = edits.Change(tape, ())
    compiled = {row_ns: compile_program(unchanged.program(tape.calibration), row_ns).ops for row_ns in speeds}
    return tuple(_draw(unchanged, compiled, rng) for _ in range(DRAWS))


def _draw(unchanged: edits.Change, compiled: Mapping[float, tuple[tuple[Op, ...], ...]], rng: random.Random) -> Draw:
    tape = unchanged.tape
    order = tuple(rng.choices(range(len(tape.steps)), k=len(tape.steps)))
    row_ns = rng.choice((tape.overhead.low_ns, tape.overhead.row_ns, tape.overhead.high_ns))
    factors = {name: rng.uniform(*limits) for name, limits in RANGES.items()}
    costs = tape.calibration.with_factors(factors)
    program = unchanged.program(costs)
    return Draw(order, row_ns, costs, step_time(Compiled(program, compiled[row_ns]), order))
