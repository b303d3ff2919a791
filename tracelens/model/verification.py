"""What `verify` measured: the original against a patched version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens.messages import say
from tracelens.model.plan import Estimate

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
    def device(self) -> str | None:
        """What it ran on; None where the entry does not say."""
        environment = self.details.get("environment")
        device = environment.get("device") if isinstance(environment, Mapping) else None
        return device if isinstance(device, str) else None

    def window(self, side: Literal["before", "after"]) -> Mapping[str, Any]:
        """The recorded window of one version, as verify.json has it; empty where none was recorded."""
        windows = self.details.get("windows")
        window = windows.get(side) if isinstance(windows, Mapping) else None
        return window if isinstance(window, Mapping) else {}


def counting(trials: Sequence[Verification], scheme: str | None) -> Verification | None:
    """The trial that the numbers of a scheme, or lever, come from, on every page: the last that came to a verdict, else
    the last that is undecided with an interval worth a number. None where neither is."""
    own = [trial for trial in trials if trial.scheme == scheme]
    decided = [trial for trial in own if trial.outcome != "inconclusive"]
    timed = [trial for trial in own if trial.ratio is not None and trial.ratio.tells]
    return next((some[-1] for some in (decided, timed) if some), None)
