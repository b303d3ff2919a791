"""Idle time of the GPU, with its causes."""

from __future__ import annotations

from tracelens.findings.evidence import Evidence, no_gpu
from tracelens.findings.policy import POLICY
from tracelens.model import IDLE_PARTS, Abstention, Finding
from tracelens.units import ms

NAME = "idle_gpu"
_WORDS = {
    "idle_sync": "waits",
    "idle_dataloader": "DataLoader",
    "idle_host": "host",
    "idle_launch": "launch latency",
    "idle_other": "other",
}


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """One Finding for the whole, its evidence split by cause, the largest first."""
    if "gpu" not in evidence.signals or evidence.breakdown is None:
        return no_gpu(NAME)
    parts = {name: evidence.breakdown.parts[name] for name in IDLE_PARTS}
    idle = sum(parts.values())
    if evidence.share(idle) < POLICY.idle_share:
        return ()
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    causes = ", ".join(f"{_WORDS[name]} {ms(ns)}" for name, ns in ordered if ns > 0)
    share = evidence.share(idle)
    text = f"idle {ms(idle)} of {ms(evidence.step_ns)} per step: {causes}"
    return (Finding(NAME, f"The GPU is idle {100 * share:.0f} % of the time", idle, share, None, text),)
