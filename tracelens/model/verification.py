"""What `verify` measured: the original against a patched version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens.messages import say
from tracelens.model.plan import Estimate
from tracelens.units import told_speedup

Outcome = Literal["faster", "no change", "slower", "different numbers", "failed", "inconclusive"]

OUTCOMES: Mapping[Outcome, str] = {
    "faster": say("faster"),
    "no change": say("no change"),
    "slower": say("slower"),
    "different numbers": say("different numbers"),
    "failed": say("failed"),
    "inconclusive": say("inconclusive"),
}


@dataclass(frozen=True, slots=True)
class Ratio:
    """new step time ÷ old step time with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def tells(self) -> bool:
        """Whether the interval is worth a number: not when each end is twice or half the middle, or worse."""
        return self.high <= 4 * self.low


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` measured for one scheme (or for a change made by hand). `details` is verify.json's entry."""

    scheme: str | None
    outcome: Outcome
    numbers_equal: bool | None
    ratio: Ratio | None
    base_ns: int | None
    patched_ns: int | None
    predicted: Estimate | None
    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def speedup(self) -> float | None:
        """How many times as fast it was measured to be, as every page tells it: of the step times that are shown."""
        if self.base_ns and self.patched_ns:
            return told_speedup(self.base_ns, self.patched_ns)
        return 1 / self.ratio.value if self.ratio is not None else None

    @property
    def device(self) -> str | None:
        """What it ran on; None where the entry does not say."""
        environment = self.details.get("environment")
        device = environment.get("device") if isinstance(environment, Mapping) else None
        return device if isinstance(device, str) else None

    @property
    def pairs_ns(self) -> tuple[tuple[float, float], ...]:
        """The step times of each measured pair, original and changed; empty where the entry has none."""
        times = self.details.get("times")
        pairs = times.get("pairs") if isinstance(times, Mapping) else None
        found = [(pair.get("original_us"), pair.get("patched_us")) for pair in pairs or () if isinstance(pair, Mapping)]
        return tuple(
            (1000.0 * before, 1000.0 * after)
            for before, after in found
            if isinstance(before, int | float) and isinstance(after, int | float) and min(before, after) > 0
        )

    def window(self, side: Literal["before", "after"]) -> Mapping[str, Any]:
        """The recorded window of one version, as verify.json has it; empty where none was recorded."""
        windows = self.details.get("windows")
        window = windows.get(side) if isinstance(windows, Mapping) else None
        return window if isinstance(window, Mapping) else {}

    @property
    def gpu_busy_share(self) -> float | None:
        """Of the measured step with the change; where the work was not recorded, of a recorded step, which the profiler
        stretches. None where neither is known."""
        after = self.window("after")
        worked_us, share = after.get("gpu_busy_us_per_step"), after.get("gpu_busy_share")
        if isinstance(worked_us, int | float) and self.patched_ns:
            return min(1.0, 1000.0 * worked_us / self.patched_ns)
        return float(share) if isinstance(share, int | float) else None


def counting(trials: Sequence[Verification], scheme: str | None) -> Verification | None:
    """The trial that the numbers of a scheme, or lever, come from, on every page: the last that came to a verdict, else
    the last that is undecided with an interval worth a number. None where neither is."""
    own = [trial for trial in trials if trial.scheme == scheme]
    decided = [trial for trial in own if trial.outcome != "inconclusive"]
    timed = [trial for trial in own if trial.ratio is not None and trial.ratio.tells]
    return next((some[-1] for some in (decided, timed) if some), None)
