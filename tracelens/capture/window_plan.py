"""How many steps go into which recording window: pure arithmetic.

In: the options of a recording and, where it is known, how many steps the script still has. Out: a plan that fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tracelens.messages import say

KINETO_SILENT = {"KINETO_LOG_LEVEL": "6"}
"""Variables that silence Kineto, whose lines on stderr would look like the script's."""
BYTES_PER_EVENT = 400
"""Of uncompressed JSON, rounded up: 250 on a CPU, up to 350 where kernels have their launch parameters."""
SPARE_DISK = 0.5
"""The share of the free disk that a recording may take; the job's checkpoints need the rest."""
UNKNOWN_LENGTH_STEPS = 150
"""Most steps of W0 where the loop's length is unknown.

Enough for a median and its spread; with warm-up and window still below the 200 steps of small demonstrations.
"""
FULL_BUDGET_SECONDS = 600.0
"""From this budget on a command that measures afterwards records as usual.

The limits are then 30 s of W0, 60 s of W1, and a million events, which take some 40 s to save, read and plan for (37 s
for 935,000 on two busy cores): about a fifth of ten minutes together. What the script itself needs to start is beside.
"""
FEWEST_STEPS = 4
"""Steps that a script of known length needs: two to find the length, one unprofiled, one recorded."""

LONGEST_SECONDS = 120.0
"""Longest duration of a window whose length is otherwise given in steps alone (several ranks)."""
MOST_UNOBSERVED = 64
UNOBSERVED_SECONDS = 0.25
"""In W0 this many steps, or as many as take this long, only have their end times noted, to keep the cost low."""


class NoRoomError(Exception):
    """Not even one step can be recorded within the limits."""


@dataclass(frozen=True)
class WindowPlan:
    """The windows, in the order in which they are recorded."""

    settle: int = 3
    """First steps, which are skipped: lazy initialization, autotuning, and finding out what a step is."""
    unprofiled_steps: int = 20
    unprofiled_seconds: float = 2.0
    """W0 ends when both are reached: over less than 2 s, one hiccup of the host dominates the mean …"""
    unprofiled_most_steps: int = 2000
    unprofiled_most_seconds: float = 30.0
    """… but never longer than either of these, once it holds `unprofiled_steps` or a fifth of them."""
    warmup: int = 3
    """Steps with the tracer attached whose events are discarded: the first ones contain its initialization."""
    clean: int = 12
    """Steps of W1, whose timings count."""
    attributed: int = 2
    """Steps of W2, in which calls that may wait are marked with their source line; their timings do not count."""
    most_wait_seconds: float = 15.0
    """Behind the windows, where slow steps take a part of the time: how long to wait for one of them, whose lines are
    clocked without the profiler. 0: not at all. W0 holds two of them at least, so it is half of W0 at most."""
    most_window_seconds: float = 60.0
    """W1 ends after this, as steps of many seconds record many events."""
    most_events: int = 1_000_000
    """Some 300 MB of JSON, which take about 6 s to write while the training waits."""
    most_bytes: int = 2_000_000_000
    patience_seconds: float = 90.0
    """After so long without a step, a batch or a backward, a time window is recorded instead."""
    time_window_seconds: float = 3.0
    """Length of the time window. 0: none is recorded."""
    shrunk: bool = False
    """The windows were made shorter to fit a short script."""
    open_ended: bool = False
    """The loop's length is unknown."""
    known_steps: int | None = None
    """How many steps the script makes in all, where an earlier recording of it found that out."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> WindowPlan:
        """The plan that a configuration asks for; keys that are no fields are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in config.items() if key in known and value is not None})

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON, with None for infinity."""
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}

    def unprofiled_enough(self, steps: int, seconds: float) -> bool:
        """Whether W0 may end after `steps` steps in `seconds`."""
        if steps >= self.unprofiled_most_steps:
            return True
        if seconds >= self.unprofiled_most_seconds and steps >= max(1, self.unprofiled_steps // 5):
            return True
        return steps >= self.unprofiled_steps and seconds >= self.unprofiled_seconds

    def unobserved(self, steps: int, seconds: float) -> int:
        """How many of the next steps need not be observed, as W0 cannot end with them; after `steps` in `seconds`."""
        end = self.unprofiled_steps if steps < self.unprofiled_steps else self.unprofiled_most_steps
        return max(0, min(end - steps - 1, MOST_UNOBSERVED, int(UNOBSERVED_SECONDS * steps / max(seconds, 1e-6))))

    def has_probe(self) -> bool:
        """Whether one of the warm-up steps is recorded and discarded, to count the events of a step."""
        return self.warmup >= 2

    def within_limits(self, events: int, seconds: float, free_bytes: int | None) -> WindowPlan:
        """The plan with W1 and W2 shortened to stay within its limits; `events` and `seconds` are those of one step.

        Raises `NoRoomError` if not even one step does.
        """
        most, _why = self.step_limit(events, seconds, free_bytes)
        if not most:
            size = max(1, events) * BYTES_PER_EVENT
            raise NoRoomError(say("one step records about {events:,} events, {size:,} bytes", events=events, size=size))
        attributed = min(self.attributed, 1) if most < self.clean + self.attributed else self.attributed
        return replace(self, clean=max(1, min(self.clean, most - attributed)), attributed=attributed)

    def step_limit(self, events: int, seconds: float, free_bytes: int | None) -> tuple[int, str]:
        """How many such steps the limits allow, and which limit it is, as text. 0: no room on the disk for one step."""
        events, seconds = max(1, events), max(seconds, 1e-6)
        disk = self.most_bytes if free_bytes is None else min(self.most_bytes, int(SPARE_DISK * free_bytes))
        room = disk // (events * BYTES_PER_EVENT)
        limits = [(max(1, self.most_events // events), say("a step records about {events:,} events", events=events))]
        if math.isfinite(self.most_window_seconds):
            limits.append(
                (max(1, int(self.most_window_seconds / seconds)), say("a step lasts {seconds:.3g} s", seconds=seconds))
            )
        plenty = disk == self.most_bytes
        limits.append(
            (
                room,
                limits[0][1]
                if plenty
                else say("the recording may take {disk:,} bytes of the disk's free ones", disk=disk),
            )
        )
        return min(limits, key=lambda limit: limit[0])

    def for_budget(self, seconds: float) -> WindowPlan:
        """The plan where recording and all that follows share `seconds`: its limits are shorter in proportion."""
        share = min(1.0, seconds / FULL_BUDGET_SECONDS)
        return replace(
            self,
            unprofiled_most_seconds=share * self.unprofiled_most_seconds,
            most_window_seconds=share * self.most_window_seconds,
            most_events=int(share * self.most_events),
            most_wait_seconds=share * self.most_wait_seconds,
        )

    def by_counts(self) -> WindowPlan:
        """The plan in numbers of steps alone, for several ranks.

        Ranks that went by their own clocks would open their windows at different steps, and a rank that writes its
        trace makes the others wait.
        """
        return replace(
            self,
            unprofiled_steps=min(2 * self.unprofiled_steps, self.unprofiled_most_steps),
            unprofiled_seconds=0.0,
            unprofiled_most_seconds=math.inf,
            most_window_seconds=math.inf,
        )

    def with_unknown_length(self) -> WindowPlan:
        """The plan for a loop of unknown length, with a short W0: the steps must not run out before W1.

        Where fewer recorded steps were asked for, W0 is shorter in proportion: the script is probably short.
        """
        most = max(1, round(UNKNOWN_LENGTH_STEPS * min(1.0, self.clean / WindowPlan.clean)))
        return replace(
            self,
            unprofiled_steps=min(self.unprofiled_steps, most),
            unprofiled_most_steps=min(self.unprofiled_most_steps, most),
            open_ended=True,
        )

    def longest_window_seconds(self) -> float:
        """Seconds after which the window is closed even if the step does not end."""
        return min(self.most_window_seconds, LONGEST_SECONDS)

    def most_steps(self) -> int:
        """Steps after which the recording is complete, however short they are."""
        return self.settle + self.unprofiled_most_steps + self.warmup + self.clean + self.attributed

    def advice(self, steps: int, option: str) -> str:
        """What helps a script that ended after `steps` steps, before the profiler was started; "" if nothing does.

        `option` is how the user asks for fewer recorded steps: "--steps " or "steps=".
        """
        if not self.open_ended:
            return (
                say(": let it make at least {fewest_steps} steps", fewest_steps=FEWEST_STEPS)
                if steps < FEWEST_STEPS
                else ""
            )
        fewer = [replace(self, clean=clean).with_unknown_length() for clean in range(self.clean - 1, 0, -1)]
        fits = next((plan.clean for plan in fewer if plan.most_steps() <= steps), None)
        enough: str = say("let it make {most_steps} steps", most_steps=self.most_steps())
        if fits is not None:
            enough = say("record fewer with {option}{fits}, or {enough}", option=option, fits=fits, enough=enough)
        elif fewer:
            shorter = fewer[-1].most_steps()
            enough = say("{enough} (or {shorter}, with {option}1)", enough=enough, shorter=shorter, option=option)
        most = self.unprofiled_most_steps
        return say(
            ": its loop does not say how long it is, so up to {most} steps are timed first; {enough}",
            most=most,
            enough=enough,
        )

    def fitted(self, remaining: int) -> WindowPlan:
        """The plan for a script with `remaining` steps: its windows are shortened (`shrunk`) if these are too few."""
        recorded = self.warmup + self.clean + self.attributed
        spare = remaining - recorded - self.settle
        if spare >= self.unprofiled_steps:
            return replace(self, unprofiled_most_steps=min(self.unprofiled_most_steps, max(1, spare)))
        attributed = min(self.attributed, 1 if remaining >= 4 else 0)
        warmup = min(self.warmup, 1 if remaining >= 3 else 0)
        left = max(1, remaining - attributed - warmup)
        clean = min(self.clean, max(1, (left + 1) // 2))
        unprofiled = max(0, left - clean)
        return replace(
            self,
            settle=0,
            unprofiled_steps=unprofiled,
            unprofiled_seconds=0.0,
            unprofiled_most_steps=unprofiled,
            warmup=warmup,
            clean=clean,
            attributed=attributed,
            shrunk=True,
        )
