"""Symptoms: what the GPU waited for, each with its cost per step, its evidence and its source line.

In: a Timeline and what was computed from it. Out: Findings, Abstentions for what could not be judged, and what was
looked for and not found. One module per symptom; `DETECTORS` is the registry.

    detector    what a detector is         breakdown   where the step's wall time goes
    stalls      waits grouped by place     inventory   what the loop does already
    overlap     copies against compute     kept_steps  the steps that every average is over
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracelens.findings import (
    alloc_in_loop,
    blocking_copy,
    dataloader_wait,
    exposed_communication,
    idle_gpu,
    launch_bound,
    overlap_gap,
    sync_stall,
)
from tracelens.findings.analyzed_rank import AnalyzedRank, calls_recorded
from tracelens.findings.detector import Detector
from tracelens.model import Abstention, Finding, InapplicableCheck, PassedCheck

__all__ = ["DETECTORS", "AnalyzedRank", "Detections", "Detector", "calls_recorded", "detect"]

DETECTORS: tuple[Detector, ...] = (
    sync_stall.DETECTOR,
    blocking_copy.DETECTOR,
    overlap_gap.DETECTOR,
    idle_gpu.DETECTOR,
    dataloader_wait.DETECTOR,
    launch_bound.DETECTOR,
    alloc_in_loop.DETECTOR,
    exposed_communication.DETECTOR,
)


@dataclass(frozen=True, slots=True)
class Detections:
    """The results of all detectors; each detector is in exactly one group."""

    findings: tuple[Finding, ...]
    """The most costly first."""
    abstentions: tuple[Abstention, ...]
    passed: tuple[PassedCheck, ...]
    not_applicable: tuple[InapplicableCheck, ...]


def detect(rank: AnalyzedRank, detectors: Iterable[Detector] = DETECTORS) -> Detections:
    """Run all detectors on one rank."""
    results = [detector.run(rank) for detector in detectors]
    findings = [finding for result in results if isinstance(result, tuple) for finding in result]
    return Detections(
        findings=tuple(sorted(findings, key=lambda finding: -finding.cost_ns)),
        abstentions=tuple(result for result in results if isinstance(result, Abstention)),
        passed=tuple(result for result in results if isinstance(result, PassedCheck)),
        not_applicable=tuple(result for result in results if isinstance(result, InapplicableCheck)),
    )
