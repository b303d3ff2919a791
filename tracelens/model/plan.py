"""What could be done: Edits of the training loop, what they buy, the schemes made of them, and the advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens.edit_kinds import EditKind
from tracelens.model.source import Location

Binding = Literal["host", "stream", "copy", "loader"]
CRITERIA = ("performance", "difficulty", "complexity", "memory", "maintainability", "risk")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of the training loop. The replay and the patcher read the same value.

    `stalls` are ids of the Stalls it acts on. `interval` is N of interval-sync and defer-read: 1 means "as soon as
    the event has completed" (scheme 2), N > 1 "every N batches". `depth` is the prefetch distance in batches.
    `workers` is what more-workers asks for, `choice` the word that a lever takes: a mode of compile-modules. What each
    kind does is in `edit_kinds`.
    """

    kind: EditKind
    stalls: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    interval: int = 1
    depth: int = 0
    workers: int = 0
    choice: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Step time after a set of Edits, with its range (80 %) and what limits it then."""

    base_ns: int
    step_ns: int
    low_ns: int
    high_ns: int
    binding: Binding
    basis: Literal["unprofiled", "profiled"]
    evidence: Literal["measured", "replayed"]
    assumptions: tuple[str, ...] = ()

    @property
    def speedup(self) -> float:
        return self.base_ns / self.step_ns

    @property
    def noise_ns(self) -> int:
        """Half the width of the range: a gain below this is no gain."""
        return (self.high_ns - self.low_ns) // 2

    def document(self) -> dict[str, Any]:
        """As every JSON of ours has it, in µs; without the assumptions, which analysis.json does not carry."""
        times = {"base": self.base_ns, "step": self.step_ns, "low": self.low_ns, "high": self.high_ns}
        return {
            **{f"{name}_us": ns / 1000 for name, ns in times.items()},
            "speedup": self.speedup,
            "binding": self.binding,
            "basis": self.basis,
            "evidence": self.evidence,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """One criterion of one scheme, 0–10 (10 is best), and where the number comes from."""

    score: float
    evidence: Literal["measured", "replayed", "patch"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One remedy judged on this run. `prior` and its means are the seeds' opinion, `scores` and `total` this run's."""

    id: str
    title: str
    edits: tuple[Edit, ...]
    prior: Mapping[str, float] | None
    scores: Mapping[str, Score]
    prior_mean: float | None
    prior_total: float | None
    total: float | None
    rank: int | None
    estimate: Estimate | None
    applicable: bool
    reasons: tuple[str, ...]
    same_as: str | None = None
    """The smaller scheme that makes the same change on this loop; it stands for both."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of a stage; `met` is None where it was not measured."""

    text: str
    met: bool | None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the plan: which schemes, what it should reach, and what to do next: advice, or a command."""

    number: int
    title: str
    schemes: tuple[str, ...]
    goals: tuple[Goal, ...]
    advice: str
    command: tuple[str, str] | None = None
    """(`verify` or `apply`, scheme) where that is next; reports add which Run."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of the seeds' training speed guide on this run. `gain` is that seed's opinion in percent, never
    evidence; None where it names none. `present` None: cannot be told."""

    id: str
    title: str
    how: str
    caution: str
    present: bool | None
    evidence: str
    gain: tuple[float, float] | None = None
    note: str = ""
    source: str | None = None
    share: float | None = None
    """Of a step: the parts it acts on, and so the most that it can save here."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer. `scheme` is None for "do nothing" and for "could not judge"; the verdict says which."""

    scheme: str | None
    verdict: str
    stages: tuple[Stage, ...] = ()
    sensitivity: Mapping[str, Any] = field(default_factory=dict)
    measure: str | None = None
    """Where none is recommended: the scheme that may pay, as far as a replay can tell, and that a trial would judge."""
    lever: str | None = None
    """What acts on the largest loss: a lever of `rules/levers/` that has a recipe, or the scheme."""
    beside: str = ""
    """Where none is recommended: what the headline leaves out of the verdict. Empty where the verdict is something
    else."""
