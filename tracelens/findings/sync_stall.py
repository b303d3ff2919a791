"""Waits that leave the GPU idle: synchronizes of any kind, and reads of values."""

from __future__ import annotations

from tracelens.findings.evidence import Evidence, cost_of, no_calls, no_gpu, waits
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding, Stall

NAME = "sync_stall"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """One Finding per Stall that costs more than noise; a wait that costs nothing is no symptom."""
    if "gpu" not in evidence.signals:
        return no_gpu(NAME)
    if not evidence.calls_recorded:
        return no_calls(NAME)
    found = (_finding(stall, evidence) for stall in evidence.counted("device", "stream", "event", "d2h"))
    return tuple(finding for finding in found if finding.share >= POLICY.harmless_share)


def _finding(stall: Stall, evidence: Evidence) -> Finding:
    cost_ns, origin = cost_of(stall)
    title = "Reading a value from the GPU stalls it" if stall.kind == "d2h" else "A synchronize stalls the GPU"
    return Finding(
        NAME, title, cost_ns, evidence.share(cost_ns), stall.location, f"{waits(stall)}; {origin}", stall=stall.id
    )
