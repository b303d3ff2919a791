"""What the rule files say, as frozen values.

In: nothing. Out: the types that `rules` fills and that `plan`, `score`, `advise` and the reports read. Everything in
here is opinion or explanation with its source; none of it was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from tracelens.edit_kinds import EditKind, Need, Tier
from tracelens.levers.definition import LeverRule

Change = Literal["minimal", "acceptable", "complex"]
CHANGES: tuple[Change, ...] = ("minimal", "acceptable", "complex")
NEEDS: tuple[Need, ...] = ("per_batch_wait", "host_copy")
TIERS: tuple[Tier, ...] = get_args(Tier)
SCALES = ("performance", "memory", "difficulty", "complexity", "maintainability", "risk")
METRICS = ("syncs_drop_percent", "host_wait_drop_percent", "cpu_percent", "gpu_percent", "gain_percent")


@dataclass(frozen=True, slots=True)
class SourcedClaim:
    """A sentence and where it comes from: a seed document and the heading in it."""

    text: str
    seed: str
    section: str


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """An expected range (percent, days or lines; the key says which), and where it comes from."""

    low: float
    high: float
    seed: str
    section: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class EditTemplate:
    """One Edit of a scheme before it meets a loop. `interval` None means the N of the run."""

    kind: EditKind
    interval: int | None = 1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class SchemeRule:
    """One remedy: its Edits, the seeds' opinion of it, and what they say for and against it."""

    id: str
    number: str | None
    """The seeds' number (1, 2, 3, 4, 2+3); None for a remedy that they do not number."""
    title: str
    summary: str
    edits: tuple[EditTemplate, ...]
    needs: tuple[Need, ...]
    change: Change
    priors: Mapping[str, float] | None
    priors_source: str
    gain: tuple[ExpectedRange, ...]
    days: tuple[ExpectedRange, ...]
    lines: tuple[ExpectedRange, ...]
    applicability: tuple[SourcedClaim, ...]
    pros: tuple[SourcedClaim, ...]
    cons: tuple[SourcedClaim, ...]
    risks: tuple[SourcedClaim, ...]
    references: tuple[SourcedClaim, ...]
    sources: tuple[SourcedClaim, ...]
    unsafe: tuple[EditKind, ...] = ()
    """Kinds of Edits that go with it where the user asks for unsafe changes: those whose recipe names the scheme."""

    @property
    def days_needed(self) -> float:
        """The most days that any seed gives it: the decision by time must not promise too much."""
        return max(span.high for span in self.days)


@dataclass(frozen=True, slots=True)
class GoalRule:
    """A goal of a stage: which measured quantity, and from which value on it is met."""

    text: str
    metric: str
    at_least: float
    seed: str
    section: str


@dataclass(frozen=True, slots=True)
class StageRule:
    """One of the seeds' three stages."""

    number: int
    title: str
    schemes: tuple[str, ...]
    goals: tuple[GoalRule, ...]


@dataclass(frozen=True, slots=True)
class FindingText:
    """How a symptom is explained to a person."""

    id: str
    title: str
    meaning: str
    measured: str
    helps: tuple[str, ...]
    nothing_when: str


@dataclass(frozen=True, slots=True)
class MeasureRule:
    """One measure of the training speed guide: what to do, what that seed expects, and where a run tells of it."""

    id: str
    title: str
    how: str
    caution: str
    gain: ExpectedRange | None
    inventory: str | None
    """The item of the inventory that tells whether the loop has it."""
    variable: str | None
    """The variable of the environment that does."""
    acts_on: tuple[str, ...] = ()
    """Parts of a step that it can shorten."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an Edit looks in source: one pair of examples, when it holds, and what to do by hand otherwise."""

    id: EditKind
    title: str
    tier: Tier
    loop_before: str
    """What the loop does that the Edit changes, and `loop_after` what it does then: one row of docs/patching.md."""
    loop_after: str
    conditions: tuple[str, ...]
    by_hand: str
    offered_by: tuple[str, ...]
    """Schemes that make it beside the Edits that they name themselves."""
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Scale:
    """From a quantity to a score 0–10: straight lines between `points`, flat outside them."""

    measure: str
    unit: str
    why: str
    points: tuple[tuple[float, float], ...]

    def score(self, value: float) -> float:
        """The score of `value`, rounded to two decimals so that printed totals can be checked by hand."""
        first, last = self.points[0], self.points[-1]
        if value <= first[0]:
            return first[1]
        for (x0, y0), (x1, y1) in pairwise(self.points):
            if value <= x1:
                return round(y0 + (y1 - y0) * (value - x0) / (x1 - x0), 2)
        return last[1]


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything in `rules/`, validated. `weights` are percentages that add up to 100."""

    weights: Mapping[str, float]
    scales: Mapping[str, Scale]
    schemes: tuple[SchemeRule, ...]
    stages: tuple[StageRule, ...]
    findings: Mapping[str, FindingText]
    recipes: Mapping[EditKind, Recipe]
    measures: tuple[MeasureRule, ...] = ()
    levers: tuple[LeverRule, ...] = ()

    def scheme(self, scheme_id: str) -> SchemeRule | None:
        """The rule with this id."""
        return next((rule for rule in self.schemes if rule.id == scheme_id), None)


AnyRule = SchemeRule | FindingText | Recipe | LeverRule | MeasureRule
"""What has an id and can be explained by itself."""
