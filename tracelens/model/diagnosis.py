"""Everything that is known of one Run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracelens.model.findings import Abstention, Breakdown, Finding, InventoryItem, Overlap, RankTimes, Stall, StepTimes
from tracelens.model.patch import Hunk, Patch
from tracelens.model.pictures import Drawn, WhatIf
from tracelens.model.plan import Edit, Estimate, Measure, Recommendation, Scheme
from tracelens.model.recording import Run
from tracelens.model.trace import Timeline, Trace
from tracelens.model.verification import Verification


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that is known of one Run: the single argument of every report."""

    run: Run | None
    traces: tuple[Trace, ...]
    timeline: Timeline
    """Of the rank that is reported (the slowest)."""
    steps: StepTimes
    breakdown: Breakdown | None
    """None where there is no GPU work to break down (CPU-only): a bar of nothing but idle time would be made up."""
    gpu_busy_share: float | None
    idle_share: float | None
    stalls: tuple[Stall, ...]
    overlap: Overlap | None
    findings: tuple[Finding, ...]
    abstentions: tuple[Abstention, ...]
    inventory: tuple[InventoryItem, ...]
    schemes: tuple[Scheme, ...] = ()
    recommendation: Recommendation | None = None
    patches: Mapping[str, Patch] = field(default_factory=dict)
    """Per scheme id, what the patcher would write; empty where the source is not at hand."""
    verifications: tuple[Verification, ...] = ()
    interval: int = 10
    sources: Mapping[str, str] = field(default_factory=dict)
    """Text of the user's source files that locations name, by that path; only files at hand, below the project."""
    monitor: tuple[Mapping[str, Any], ...] = ()
    """The rows of monitor.jsonl, as recorded."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Percent per criterion that the schemes were ranked by; empty before they were."""
    replayed: Mapping[str, Estimate] = field(default_factory=dict)
    """Per scheme id what the replay predicts, also where a trial measured it: a prediction is graded, not replaced."""
    situation: tuple[str, ...] = ()
    """What the replay says of waits and limits of this loop, one sentence each; empty where it could not judge."""
    checked: tuple[str, ...] = ()
    """Ids of all symptoms that were looked for, found or not."""
    ranks: tuple[RankTimes, ...] = ()
    what_if: WhatIf | None = None
    measures: tuple[Measure, ...] = ()
    """What else the seeds' training speed guide names, with whether the loop has it; empty before planning."""
    exposed_together_ns: int | None = None
    """What a step would be shorter by if no wait were in it: not the sum, because a wait that goes alone often only
    uncovers the next one. None where nothing could be replayed."""
    offers: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    """Per scheme id, the Edits that only --unsafe makes."""
    unsafe: tuple[Hunk, ...] = ()
    """Hunks that --unsafe would add and that the replay finds worth it; empty where it was not asked, or was given."""
    drawn: tuple[Drawn, ...] = ()
    """The loop as it is and with the recommended scheme (else the fastest replayed one), for one picture."""
