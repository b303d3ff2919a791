"""What is known of one Run, in values whose type says which stage of the pipeline ran.

Diagnosis              examined: where a step goes, who waits, what was found and what could not be judged
PlannedDiagnosis       and what each scheme would buy here, its patch, and which one to take
IllustratedDiagnosis   and what only the pages show
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from tracelens.model.baseline import WORK_PARTS, Baseline, baseline
from tracelens.model.findings import (
    Abstention,
    Breakdown,
    Finding,
    HeadlineKind,
    InapplicableCheck,
    InventoryItem,
    Overlap,
    PassedCheck,
    RankTimes,
    Stall,
    StepTimes,
)
from tracelens.model.levers import Lever, LeverCombination
from tracelens.model.owners import Owners
from tracelens.model.patch import Patch, UnsafeOffer
from tracelens.model.pictures import DrawnStep, WhatIf
from tracelens.model.plan import Edit, Estimate, Measure, Recommendation, Scheme
from tracelens.model.recording import Run
from tracelens.model.trace import Timeline, Trace
from tracelens.model.verification import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A Run (or bare traces) as examined: the argument of every report."""

    run: Run | None
    traces: tuple[Trace, ...]
    timeline: Timeline
    """Of the rank that is reported (the slowest)."""
    steps: StepTimes
    breakdown: Breakdown | None
    """None where there is no GPU work to break down (CPU-only)."""
    gpu_busy_share: float | None
    idle_share: float | None
    stalls: tuple[Stall, ...]
    overlap: Overlap | None
    findings: tuple[Finding, ...]
    abstentions: tuple[Abstention, ...]
    inventory: tuple[InventoryItem, ...]
    sources: Mapping[str, str]
    """Text of the user's source files that locations name, by that path; only files at hand, below the project."""
    monitor: tuple[Mapping[str, Any], ...]
    """The rows of monitor.jsonl, as recorded."""
    situation: tuple[str, ...]
    """What the replay says of waits and limits of this loop, one sentence each; empty where it could not judge."""
    passed: tuple[PassedCheck, ...]
    """Symptoms that were looked for and not found."""
    not_applicable: tuple[InapplicableCheck, ...]
    """Symptoms that cannot occur in this recording."""
    ranks: tuple[RankTimes, ...]
    exposed_together_ns: int | None
    """What a step would be shorter by if no wait were in it: not the sum, because a wait that goes alone often only
    uncovers the next one. None where nothing could be replayed."""
    owners: Owners
    """Who owns the time of a step."""
    headline: str = ""
    """The largest loss, in at most 60 characters and without a line."""
    headline_kind: HeadlineKind = "unjudged"
    """What the headline is about: a sentence is not read to find out, whatever its language."""
    loss_beside_waits: str = ""
    """The largest loss with its line, where that is neither a wait for the GPU nor the GPU's own work; else empty."""
    rare_cost: str = ""
    """What steps that take much longer than the others add to the mean step, as half a sentence; empty without any."""
    rare_cost_leads: bool = False
    """Whether the headline is about that, and no lever of an ordinary step answers it."""
    told_of: Baseline | None = None
    """What times of parts, waits and owners, and the two shares, were brought to; None: they are as recorded."""

    def item(self, name: str) -> InventoryItem | None:
        """An item of the inventory."""
        return next((item for item in self.inventory if item.id == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDiagnosis(Diagnosis):
    """A Diagnosis with its plan. `abstentions` also hold what planning could not judge."""

    schemes: tuple[Scheme, ...]
    recommendation: Recommendation
    patches: Mapping[str, Patch]
    """Per id of a scheme, or of a lever that a recipe writes, the patch that plans count and trials run; empty where
    the source is not at hand."""
    written: Mapping[str, Patch]
    """Per scheme id, what `apply` writes of it where that is less: without the hunks that nothing has proved or
    checked. Only of the recommended scheme, and of one that the user named."""
    verifications: tuple[Verification, ...]
    interval: int
    """N of every N batches that the Edits were made with."""
    weights: Mapping[str, float]
    """Percent per criterion that the schemes were ranked by."""
    replayed: Mapping[str, Estimate]
    """Per scheme id what the replay predicts, also where a trial measured it: a prediction is graded, not replaced."""
    measures: tuple[Measure, ...]
    """What else the seeds' training speed guide names, with whether the loop has it."""
    combination: LeverCombination | None
    """The best levers together, where they were tried."""
    levers: tuple[Lever, ...]
    """What can be changed, with what is known of each here: schemes and the levers of `rules/levers/`, ranked."""
    edits_of_levers: Mapping[str, tuple[Edit, ...]]
    """Per id of a lever that a recipe writes, with its value, the Edits that do so."""
    offers: Mapping[str, tuple[Edit, ...]]
    """Per scheme id, the Edits that only --unsafe makes."""
    unsafe: UnsafeOffer | None
    """What --unsafe would add and the replay finds worth it; None where it was not asked, or was given."""
    applied: str | None
    """The scheme or lever whose patch is in the user's files at present."""

    @property
    def recommended(self) -> Scheme | None:
        """The recommended scheme; None where doing nothing is recommended or nothing could be judged."""
        return next((scheme for scheme in self.schemes if scheme.id == self.recommendation.scheme), None)

    @property
    def recommended_patch(self) -> Patch | None:
        """The patch of the recommended scheme, where there is one."""
        return self.patches.get(self.recommendation.scheme) if self.recommendation.scheme else None

    @property
    def recommended_to_write(self) -> Patch | None:
        """What `apply` writes of the recommended scheme at present: all of its patch that is proved or checked."""
        scheme = self.recommendation.scheme
        return self.written.get(scheme, self.patches.get(scheme)) if scheme else None


@dataclass(frozen=True, slots=True, kw_only=True)
class IllustratedDiagnosis(PlannedDiagnosis):
    """A planned Diagnosis with what only the pages show."""

    what_if: WhatIf | None
    """None where nothing could be replayed, or no scheme has an Edit."""
    drawn: tuple[DrawnStep, ...]
    """The loop as it is and with the recommended scheme (else the fastest replayed one), for one picture; empty where
    nothing could be replayed."""


def carried_over(diagnosis: Diagnosis) -> dict[str, Any]:
    """The fields of a Diagnosis by name: what the value of the next stage starts from."""
    return {field.name: getattr(diagnosis, field.name) for field in fields(diagnosis)}


AnyDiagnosis = TypeVar("AnyDiagnosis", bound=Diagnosis)


def baseline_of(diagnosis: Diagnosis) -> Baseline:
    """How what was recorded becomes what is told, whether or not it has become so."""
    recorded_ns = diagnosis.breakdown.wall_ns if diagnosis.breakdown is not None else diagnosis.owners.wall_ns
    return diagnosis.told_of or baseline(diagnosis.steps, diagnosis.breakdown, recorded_ns)


def on_baseline(diagnosis: AnyDiagnosis) -> AnyDiagnosis:
    """With the recorded times of parts, waits and owners on the baseline, where findings and estimates are already;
    what is there stays. People are told these; JSON keeps what was recorded, with the baseline beside it."""
    if diagnosis.told_of is not None:
        return diagnosis
    told_of = baseline_of(diagnosis)
    parts = None if diagnosis.breakdown is None else told_of.parts(diagnosis.breakdown)
    busy = diagnosis.gpu_busy_share
    if parts is not None and busy is not None and parts.wall_ns > 0:
        busy = sum(ns for part, ns in parts.known.items() if part in WORK_PARTS) / parts.wall_ns
    return replace(
        diagnosis,
        breakdown=parts,
        gpu_busy_share=busy,
        idle_share=None if diagnosis.idle_share is None or busy is None else 1 - busy,
        stalls=tuple(map(told_of.stall, diagnosis.stalls)),
        owners=told_of.owners(diagnosis.owners),
        told_of=told_of,
    )
