"""How many steps go into which window: pure arithmetic, without torch.

In: the options of one recording and, where it can be told, how many steps the script still has. Out: the plan that
fits. Apart because it decides what a short script still yields.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

KINETO_SILENT = {"KINETO_LOG_LEVEL": "6"}
"""Kineto's own lines on stderr would look like the script's."""
BYTES_PER_EVENT = 400
"""Of the plain JSON, on the safe side: 250 on a CPU, up to 350 where kernels carry their launch parameters."""
SPARE_DISK = 0.5
"""A recording takes at most this share of what is free: the job's own checkpoints come first."""
UNKNOWN_LENGTH_STEPS = 150
"""Enough for a median and its spread; with warm-up and window below the 200 steps that small demonstrations have."""
FEWEST_STEPS = 4
"""Of a script whose loop says its length: two looks at it, one unprofiled step, one recorded one."""

LONGEST_SECONDS = 120.0
"""A window whose length is given in steps alone (several ranks) ends after so long all the same."""
MOST_UNSEEN = 64
UNSEEN_SECONDS = 0.25
"""So many steps, or so long, go by in W0 with their times noted and nothing else: what we do in a step costs that."""


class NoRoomError(Exception):
    """Not even one step can be recorded within the limits."""


@dataclass(frozen=True)
class WindowPlan:
    """The windows, in the order in which they are recorded."""

    settle: int = 3
    """Steps left alone at first: lazy initialization, autotuning, and the rule that finds the steps."""
    unprofiled_steps: int = 20
    unprofiled_seconds: float = 2.0
    """W0 lasts until both are reached: a mean over less than 2 s is at the mercy of one hiccup of the host …"""
    unprofiled_most_steps: int = 2000
    unprofiled_most_seconds: float = 30.0
    """… but never longer than either of these, once it holds `unprofiled_steps` or a fifth of them."""
    warmup: int = 3
    """Steps with the tracer attached and its events thrown away: the first ones pay for its initialization."""
    clean: int = 12
    attributed: int = 2
    most_window_seconds: float = 60.0
    """W1 is cut here: the trace of a step that takes many seconds holds many events."""
    most_events: int = 1_000_000
    """Some 300 MB of JSON; the training waits about 6 s while they are written."""
    most_bytes: int = 2_000_000_000
    patience_seconds: float = 90.0
    """So long without a step, a batch or a backward, and a time window is recorded instead."""
    time_window_seconds: float = 3.0
    """Its length. 0: no such window."""
    shrunk: bool = False
    open_ended: bool = False
    """The loop does not say how long it is."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> WindowPlan:
        """The plan that a configuration asks for; unknown keys are somebody else's."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in config.items() if key in known and value is not None})

    def as_dict(self) -> dict[str, Any]:
        return {key: None if value == math.inf else value for key, value in asdict(self).items()}

    def unprofiled_enough(self, steps: int, seconds: float) -> bool:
        """W0 may close."""
        if steps >= self.unprofiled_most_steps:
            return True
        if seconds >= self.unprofiled_most_seconds and steps >= max(1, self.unprofiled_steps // 5):
            return True
        return steps >= self.unprofiled_steps and seconds >= self.unprofiled_seconds

    def unseen(self, steps: int, seconds: float) -> int:
        """How many of the next steps cannot be the one with which W0 closes, after `steps` steps in `seconds`."""
        end = self.unprofiled_steps if steps < self.unprofiled_steps else self.unprofiled_most_steps
        return max(0, min(end - steps - 1, MOST_UNSEEN, int(UNSEEN_SECONDS * steps / max(seconds, 1e-6))))

    def probed(self) -> bool:
        """One of the warm-up steps is recorded and thrown away, to learn how much a step records."""
        return self.warmup >= 2

    def bounded(self, events: int, seconds: float, free_bytes: int | None) -> WindowPlan:
        """The same plan, or one whose recording stays within its limits. `events` and `seconds`: of one step.

        Raises `NoRoomError` if not even one step does.
        """
        most, _why = self.bound(events, seconds, free_bytes)
        if not most:
            size = max(1, events) * BYTES_PER_EVENT
            raise NoRoomError(f"one step records about {events:,} events, {size:,} bytes")
        attributed = min(self.attributed, 1) if most < self.clean + self.attributed else self.attributed
        return replace(self, clean=max(1, min(self.clean, most - attributed)), attributed=attributed)

    def bound(self, events: int, seconds: float, free_bytes: int | None) -> tuple[int, str]:
        """How many such steps the limits allow, and which of them says so. 0: there is no room on the disk for one."""
        events, seconds = max(1, events), max(seconds, 1e-6)
        disk = self.most_bytes if free_bytes is None else min(self.most_bytes, int(SPARE_DISK * free_bytes))
        room = disk // (events * BYTES_PER_EVENT)
        limits = [(max(1, self.most_events // events), f"a step records about {events:,} events")]
        if math.isfinite(self.most_window_seconds):
            limits.append((max(1, int(self.most_window_seconds / seconds)), f"a step lasts {seconds:.3g} s"))
        much = disk == self.most_bytes
        limits.append(
            (room, limits[0][1] if much else f"the recording may take {disk:,} bytes of the disk's free ones")
        )
        return min(limits, key=lambda limit: limit[0])

    def in_step(self) -> WindowPlan:
        """The same plan by counts alone: ranks that read their own clocks would open their windows at different steps,
        and one that writes its trace makes the others wait."""
        return replace(
            self,
            unprofiled_steps=min(2 * self.unprofiled_steps, self.unprofiled_most_steps),
            unprofiled_seconds=0.0,
            unprofiled_most_seconds=math.inf,
            most_window_seconds=math.inf,
        )

    def with_unknown_length(self) -> WindowPlan:
        """For loops that do not say how long they are: fast steps must not run out while W0 waits for its seconds. Who
        asks for fewer recorded steps has a short script."""
        most = max(1, round(UNKNOWN_LENGTH_STEPS * min(1.0, self.clean / WindowPlan.clean)))
        return replace(
            self,
            unprofiled_steps=min(self.unprofiled_steps, most),
            unprofiled_most_steps=min(self.unprofiled_most_steps, most),
            open_ended=True,
        )

    def longest_window_seconds(self) -> float:
        """After which a step that does not end closes the window."""
        return min(self.most_window_seconds, LONGEST_SECONDS)

    def longest(self) -> int:
        """Steps after which the recording is complete, however fast they are."""
        return self.settle + self.unprofiled_most_steps + self.warmup + self.clean + self.attributed

    def advice(self, steps: int, option: str) -> str:
        """What helps a script that ended after so few steps, before the profiler was started. `option`: what asks for
        fewer; "" where the number of steps was not the reason."""
        if not self.open_ended:
            return f": let it make at least {FEWEST_STEPS} steps" if steps < FEWEST_STEPS else ""
        fewer = [replace(self, clean=clean).with_unknown_length() for clean in range(self.clean - 1, 0, -1)]
        fits = next((plan.clean for plan in fewer if plan.longest() <= steps), None)
        enough = f"let it make {self.longest()} steps"
        if fits is not None:
            enough = f"record fewer with {option}{fits}, or {enough}"
        elif fewer:
            enough += f" (or {fewer[-1].longest()}, with {option}1)"
        most = self.unprofiled_most_steps
        return f": its loop does not say how long it is, so up to {most} steps are timed first; {enough}"

    def fitted(self, remaining: int) -> WindowPlan:
        """The same plan, or one that a script with `remaining` steps can still fill."""
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
