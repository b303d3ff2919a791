"""Copies to the GPU that no computation hides."""

from __future__ import annotations

from tracelens.findings.evidence import Evidence, no_gpu
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding
from tracelens.units import ms

NAME = "overlap_gap"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """The blocking part of the exposed copies is what hiding them can win."""
    overlap = evidence.overlap
    if "gpu" not in evidence.signals or overlap is None:
        return no_gpu(NAME)
    share = evidence.share(overlap.h2d_blocking_ns)
    if share < POLICY.harmless_share:
        return ()
    hidden = 100 * overlap.h2d_hidden_ns / overlap.h2d_ns
    text = (
        f"copies to the GPU take {ms(overlap.h2d_ns)} per step, {hidden:.0f} % of it under computation, "
        f"{ms(overlap.h2d_exposed_ns)} exposed, {ms(overlap.h2d_blocking_ns)} of that while the next kernel waits; "
        f"{overlap.streams_used} stream{'s'[: overlap.streams_used != 1]} in use"
    )
    return (Finding(NAME, "Copies are not hidden behind computation", overlap.h2d_blocking_ns, share, None, text),)
