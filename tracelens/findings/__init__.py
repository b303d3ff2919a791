"""Symptoms: what the GPU waited for, each with its cost per step, its evidence and its source line.

In: a Timeline and what was computed from it. Out: Findings, and Abstentions for what could not be judged. One file per
symptom, each with `detect(evidence)`; the tuple below is all there are.

    stalls      waits grouped by place       breakdown   where the step's wall time goes
    overlap     copies against computation   inventory   what the loop does already
    window      the kept steps               policy      thresholds with their reasons
"""

from __future__ import annotations

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
from tracelens.findings.evidence import Evidence, calls_recorded
from tracelens.model import Abstention, Finding

__all__ = ["DETECTORS", "Evidence", "calls_recorded", "detect"]

DETECTORS = (
    sync_stall,
    blocking_copy,
    overlap_gap,
    idle_gpu,
    dataloader_wait,
    launch_bound,
    alloc_in_loop,
    exposed_communication,
)


def detect(evidence: Evidence) -> tuple[tuple[Finding, ...], tuple[Abstention, ...]]:
    """All Findings, the most costly first, and what could not be judged."""
    results = [detector.detect(evidence) for detector in DETECTORS]
    found = [finding for result in results if not isinstance(result, Abstention) for finding in result]
    return (
        tuple(sorted(found, key=lambda finding: -finding.cost_ns)),
        tuple(result for result in results if isinstance(result, Abstention)),
    )
