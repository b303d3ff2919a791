"""A short cut for the steps of a plain loop: the hooks only note when each ended, until somebody wants to look again.

In: the hooks' happenings while the lane has room. Out: end times, and what the rule of the steps must catch up with.
Apart from the hooks because it is about cost alone: between two steps a training loop runs through megabytes of other
code and data, so whatever a hook touches comes from main memory. What counts is how few objects that are; a loop of
nothing but hooks, which has them all at hand, shows a tenth of what they cost.
"""

from __future__ import annotations

from collections.abc import Hashable

from tracelens.launch.inside.steps import BATCHES_WITHOUT_OPTIMIZER, StepRule

MOST_BATCHES = MOST_BACKWARDS = BATCHES_WITHOUT_OPTIMIZER
"""So many without a step, and the rule decides again what a step is."""


class Lane:
    """`room` steps of the optimizer `key`, each after a backward, need no look; without room the lane is closed."""

    __slots__ = ("backwards", "batches", "inside", "key", "repeats", "room", "stamps")

    def __init__(self) -> None:
        self.open(None, 0)

    def open(self, key: Hashable, steps: int) -> None:
        """Let `steps` steps of the optimizer `key` pass."""
        self.key, self.room = key, steps
        self.stamps: list[int] = []
        """When each ended, by `time.perf_counter_ns`."""
        self.backwards = self.batches = 0
        """Since the last of them."""
        self.repeats = 0
        """Calls of it without a backward before: the same step still."""
        self.inside = False
        """That optimizer is running now."""

    def leave(self, rule: StepRule) -> list[int]:
        """Close, and tell the rule what has passed; returns the end times."""
        stamps = self.stamps
        rule.passed(len(stamps), self.repeats, backwards=self.backwards, batches=self.batches)
        self.open(None, 0)
        return stamps
