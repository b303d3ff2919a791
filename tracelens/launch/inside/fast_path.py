"""The fast path of the hooks for a plain loop: only the end time of each step is noted, and no observer is called.

In: calls of the hooks while the path is open. Out: end times, and what the step rule has to catch up with. It exists
for its cost alone: between two steps a training loop touches megabytes of other code and data, so every object that a
hook touches is a cache miss. The number of objects decides the cost; a benchmark of the hooks alone, with everything
in the cache, shows a tenth of it.
"""

from __future__ import annotations

from collections.abc import Hashable

from tracelens.launch.inside.steps import BATCHES_WITHOUT_OPTIMIZER, StepRule

MOST_BATCHES = MOST_BACKWARDS = BATCHES_WITHOUT_OPTIMIZER
"""After so many without a step, the step rule decides again what a step is."""


class FastPath:
    """Open for the next `room` steps of the optimizer `key`, each after a backward; closed where `room` is 0."""

    __slots__ = ("backwards", "batches", "inside", "key", "repeats", "room", "stamps")

    def __init__(self) -> None:
        self.open(None, 0)

    def open(self, key: Hashable, steps: int) -> None:
        """Take the next `steps` steps of the optimizer `key` without a look at the rule."""
        self.key, self.room = key, steps
        self.stamps: list[int] = []
        """End time of each, by `time.perf_counter_ns`."""
        self.backwards = self.batches = 0
        """Since the last of them."""
        self.repeats = 0
        """Calls of the optimizer without a backward before them: they belong to the same step."""
        self.inside = False
        """The optimizer's step is running now."""

    def close(self, rule: StepRule) -> list[int]:
        """Close the path and let the rule catch up; returns the steps' end times."""
        stamps = self.stamps
        rule.catch_up(len(stamps), self.repeats, backwards=self.backwards, batches=self.batches)
        self.open(None, 0)
        return stamps
