"""What each recorded step gains by a change, and the step that must not make a promise for all others.

In: the unchanged loop and a changed one, compiled. Out: `StepGains`. A cold first copy or a hiccup can give more than
all other steps together. The mean over steps then says what happened once, not what a training gains, so such a step
is left out; and a range holds what the gain is without any other single step. A median would leave out a cold copy too,
but also the gain of work that comes every few steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.replay.program import CompiledProgram
from tracelens.replay.steady_state import step_time

FEWEST_STEPS = 3
"""Fewer steps than these can be described, but promise nothing."""
EDGE_FACTOR = 2
"""The first and the last recorded step lie beside the profiler's start and stop: a gain twice the largest of the others
is theirs."""
LEAST_GAIN = 0.005
"""Gains below 0.5 % of a step are not looked at: no promise is made of them."""


@dataclass(frozen=True, slots=True)
class StepGains:
    """Per recorded step, the step time if all steps were like it, in ns on the replay's own scale."""

    before_ns: tuple[float, ...]
    after_ns: tuple[float, ...]

    @property
    def gains_ns(self) -> tuple[float, ...]:
        return tuple(before - after for before, after in zip(self.before_ns, self.after_ns, strict=True))

    def lone_step(self) -> int | None:
        """The step that gains more than all others together, or, at an edge of the window, far more than any other."""
        gains = self.gains_ns
        if len(gains) < FEWEST_STEPS or sum(gains) < LEAST_GAIN * sum(self.before_ns):
            return None
        largest = max(range(len(gains)), key=gains.__getitem__)
        others = [max(0.0, gain) for step, gain in enumerate(gains) if step != largest]
        at_edge = largest in (0, len(gains) - 1) and gains[largest] > EDGE_FACTOR * max(others)
        return largest if at_edge or gains[largest] > sum(others) else None

    def share(self, step: int) -> float:
        """Which part of all gain (0 to 1) is one step's."""
        gains = [max(0.0, gain) for gain in self.gains_ns]
        return gains[step] / sum(gains)

    def leave_one_out(self) -> tuple[float, ...]:
        """By how much new ÷ old step time changes without one of the steps, for each of them."""
        before, after = sum(self.before_ns), sum(self.after_ns)
        return tuple(
            (after - new) / (before - old) - after / before
            for old, new in zip(self.before_ns, self.after_ns, strict=True)
            if before > old
        )


def step_times(compiled: CompiledProgram) -> tuple[float, ...]:
    """The step time of each recorded step, repeated alone."""
    return tuple(step_time(compiled, (step,)) for step in range(compiled.program.recorded_steps))
