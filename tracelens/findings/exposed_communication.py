"""Collectives that no computation hides."""

from __future__ import annotations

from tracelens.findings.evidence import Evidence, no_gpu
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding
from tracelens.units import ms

NAME = "exposed_communication"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """Time in which a collective runs alone. It contains the wait for the slowest rank."""
    if "gpu" not in evidence.signals or evidence.breakdown is None:
        return no_gpu(NAME)
    cost = evidence.breakdown.parts["communication_exposed"]
    if evidence.share(cost) < POLICY.harmless_share:
        return ()
    text = f"collectives run {ms(cost)} per step with no kernel beside them; waiting for other ranks is part of it"
    return (Finding(NAME, "Communication is not hidden", cost, evidence.share(cost), None, text),)
