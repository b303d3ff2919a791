"""Copies to the GPU that stop the host: pageable memory, or a copy that is waited for at once."""

from __future__ import annotations

from tracelens.findings.evidence import Evidence, no_calls, no_gpu, waits
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding, Stall
from tracelens.units import ms

NAME = "blocking_copy"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """One Finding per copy that costs more than noise."""
    if "gpu" not in evidence.signals:
        return no_gpu(NAME)
    if not evidence.calls_recorded:
        return no_calls(NAME)
    found = (_finding(stall, evidence) for stall in evidence.counted("h2d"))
    return tuple(finding for finding in found if finding.share >= POLICY.harmless_share)


def _finding(stall: Stall, evidence: Evidence) -> Finding:
    """Without a replay the larger of both losses stands for the cost: the host is blocked while the GPU idles."""
    if stall.exposed_ns is not None:
        cost_ns, origin = stall.exposed_ns, f"copying without waiting gives back {ms(stall.exposed_ns)} (replay)"
    else:
        cost_ns, origin = max(stall.wait_ns, stall.gpu_idle_ns), "what copying without waiting gives was not replayed"
    return Finding(
        NAME,
        "A copy to the GPU blocks the host",
        cost_ns,
        evidence.share(cost_ns),
        stall.location,
        f"{waits(stall)}; {origin}",
        stall=stall.id,
    )
