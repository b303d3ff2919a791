"""Steps that take much longer than the others: told of beside the ordinary step, which every other number is about."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

LEAST_SHARE = 0.05
"""Of the time of all steps, that slow steps add to it: what is less is no cause to speak of."""

ALIKE = 1.25
"""Two slow steps are of one kind if one takes that much more than the other at most."""


@dataclass(frozen=True, slots=True)
class SlowPattern:
    """The slow steps among those that were timed."""

    steps: int
    ordinary_ns: int
    """The median step."""
    positions: tuple[int, ...]
    """Which ones: those at the period, where there is one, else all that are slow."""
    excess_ns: tuple[int, ...]
    """By how much each of them is longer than the median step."""
    every: int | None
    """Their distance; None where they come at no regular one."""
    total_ns: int
    """Of all steps."""

    @property
    def seen(self) -> int:
        return len(self.positions)

    @property
    def slow_ns(self) -> int:
        """What is typically added to a step."""
        return round(statistics.median(self.excess_ns))

    @property
    def mean_ns(self) -> float:
        """Of all steps."""
        return self.total_ns / self.steps

    @property
    def distance(self) -> float:
        """Steps from one slow step to the next, on average where there is no period."""
        return float(self.every) if self.every is not None else self.steps / self.seen

    @property
    def per_step_ns(self) -> float:
        """What they add to a step on average."""
        return statistics.fmean(self.excess_ns) / self.distance

    @property
    def limits_ns(self) -> tuple[float, float]:
        """The range of `per_step_ns`: twice the error of the mean; of fewer than five the shortest and the longest."""
        if self.seen < 5:
            return min(self.excess_ns) / self.distance, max(self.excess_ns) / self.distance
        middle, error = statistics.fmean(self.excess_ns), statistics.stdev(self.excess_ns) / self.seen**0.5
        return max(0.0, middle - 2 * error) / self.distance, (middle + 2 * error) / self.distance

    @property
    def share(self) -> float:
        """Of the time of all steps."""
        return self.per_step_ns / self.mean_ns if self.total_ns else 0.0

    @property
    def least_slow_ns(self) -> float:
        """From this length on a step is one of them."""
        return self.ordinary_ns + 0.6 * self.slow_ns

    @property
    def likely_every(self) -> int | None:
        """The period, or what may be one: the distance of two slow steps that are alike. A third one confirms it."""
        if self.every is not None or self.seen != 2 or max(self.excess_ns) > ALIKE * min(self.excess_ns):
            return self.every
        distance = self.positions[1] - self.positions[0]
        alone = self.positions[0] < distance and self.positions[1] + distance >= self.steps
        return distance if alone else None

    def next_after(self, position: int) -> int | None:
        """The first position behind `position` at which a slow step is likely to come; None without a period."""
        every = self.likely_every
        if every is None:
            return None
        missing = (self.positions[-1] - position - 1) % every
        return position + 1 + missing


@dataclass(frozen=True, slots=True)
class SlowRows:
    """What a Timeline knows of slow steps: they are not kept, so that every number is about an ordinary one."""

    pattern: SlowPattern
    rows: tuple[int, ...]
    """Those that were recorded, as positions in the table of steps."""
    work_ns: int
    """What the GPU works for an ordinary step."""

    @property
    def per_step_ns(self) -> float:
        """What slow steps add to the mean step that the GPU does not work through: where the host runs ahead of it and
        waits for it every tenth step, ordinary steps are shorter than their work, and nothing is lost."""
        pattern = self.pattern
        return max(0.0, min(pattern.per_step_ns, pattern.mean_ns - max(pattern.ordinary_ns, self.work_ns)))

    @property
    def share(self) -> float:
        """Of the time of all steps, 0 to 1."""
        return self.per_step_ns / self.pattern.mean_ns if self.pattern.total_ns else 0.0


@dataclass(frozen=True, slots=True)
class SlowSteps:
    """A checkpoint every tenth step, an evaluation every hundredth: what such steps add to the mean step."""

    seen: int
    """How many of them, among the steps that were timed without the profiler."""
    steps: int
    """So many were timed."""
    every: int | None
    """They come every so many steps; None where at no regular distance."""
    ordinary_ns: int
    """The median step."""
    mean_ns: int
    """The mean step, which a training takes times its steps."""
    excess_ns: int
    """How much longer a slow step is than the median step, on average."""
    per_step_ns: int
    """What they add to the mean step and would not if they were ordinary: without what the GPU computes meanwhile."""
    low_ns: int
    high_ns: int
    explained: float = 0.0
    """The part of `excess_ns` whose line is known, 0 to 1."""
    reason: str | None = None
    """Why no line is known of most of it, with what to record."""
    record_steps: int | None = None
    """So many steps to record, to see a line; None where it is known, or no recording would be long enough."""

    @property
    def share(self) -> float:
        """Of the time of all steps, 0 to 1."""
        return self.per_step_ns / self.mean_ns if self.mean_ns > 0 else 0.0

    @property
    def distance(self) -> float:
        """Steps from one to the next, on average where there is no period."""
        return float(self.every) if self.every is not None else self.steps / self.seen

    def __post_init__(self) -> None:
        if not 1 <= self.seen <= self.steps or not self.low_ns <= self.per_step_ns <= self.high_ns:
            raise ValueError(f"{self} does not fit together")
