"""Clocks the lines of a slow step behind the windows, where slow steps take a part of the training time.

In: the lengths of W0's steps, and the ends of the steps that follow the windows. Out: `found`, a step that takes much
longer than the others, and the log of the line clock with it and the step before it. The profiler is off meanwhile, and
so is the clock until the step before the one that is due. Steps and seconds are bounded, and steps that are slow at no
period are not waited for: the machine has such, too.
"""

from __future__ import annotations

import time

from tracelens.capture.inside.line_clock import LineClock
from tracelens.model import SlowPattern
from tracelens.model.slow_steps import LEAST_SHARE
from tracelens.trace import step_periods

FEWEST_SEEN = 2
MOST_LATE = 25
"""Steps that are clocked after the one that was due."""
RECOVERING = 2
"""Steps that are let pass: the GPU stood still while the profiler was stopped."""


class SlowStepWatch:
    """`begin` once, then `ended` at the end of each step until it says that it is done."""

    def __init__(self, pattern: SlowPattern, first: int, seconds: float) -> None:
        """`first`: the number of W0's first step. `seconds`: how long to wait at most."""
        self.clock = LineClock()
        self._pattern = pattern
        self._first = first
        self._most_ns = round(1e9 * seconds)
        self._from, self._last = 0, 0
        self._start_ns = self._began_ns = 0
        self.found: tuple[int, int] | None = None
        """Number and length of the slow step."""

    def plan(self, number: int) -> bool:
        """Whether a slow step is due soon enough after step `number`; at a new epoch it may come a little later."""
        pattern = self._pattern
        due = pattern.next_after(number + RECOVERING - self._first)
        if due is None:
            return False
        self._from = due + self._first - 1
        self._last = self._from + 1 + min(pattern.every or 0, MOST_LATE)  # a third one has to come when it is due
        return (self._from + 1 - number) * pattern.mean_ns <= self._most_ns

    def begin(self) -> None:
        """A step begins, the first that is waited through."""
        self.clock.prepare()
        self._start_ns = self._began_ns = time.perf_counter_ns()

    def ended(self, number: int, now: int) -> bool:
        """Step `number` ended at `now` (`time.perf_counter_ns`) and the next one begins; True: that was all."""
        taken = now - self._began_ns
        if number >= self._from and taken >= self._pattern.least_slow_ns:
            self.clock.stop()
            self.found = (number, taken)
            return True
        if number >= self._last or now - self._start_ns > self._most_ns or self.clock.reason is not None:
            return True
        if number + 1 >= self._from:
            self.clock.forget_all_but_last()
            self.clock.begin_step(number + 1)
        self._began_ns = time.perf_counter_ns()
        return False


def planned(lengths: list[int], first: int, number: int, seconds: float) -> SlowStepWatch | None:
    """The watch for a slow step behind step `number`; None where no slow step is worth it, or comes soon enough."""
    pattern = step_periods.find(lengths)
    if pattern is None or pattern.seen < FEWEST_SEEN or pattern.share < LEAST_SHARE:
        return None
    watch = SlowStepWatch(pattern, first, seconds)
    return watch if watch.plan(number) else None
