"""The training loop inside the DataLoader's `__next__`."""

from __future__ import annotations

from tracelens.findings import kept_steps
from tracelens.findings.evidence import Evidence
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding
from tracelens.trace import intervals
from tracelens.units import ms

NAME = "dataloader_wait"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """The cost is the idle GPU time that the loader owns; without a GPU the wait itself."""
    if "dataloader" not in evidence.signals:
        return Abstention(
            NAME,
            "the trace does not show when the loop was inside a DataLoader",
            "record CPU activities and take batches from a torch DataLoader: tracelens profile",
        )
    kept = kept_steps.select(evidence.timeline)
    loader = evidence.timeline.loader_waits()
    inside = intervals.intersect(intervals.union(loader["start_ns"], loader["end_ns"]), kept.covered)
    waited = round(intervals.total(inside) / kept.count)
    idle = evidence.breakdown.parts["idle_dataloader"] if evidence.breakdown else None
    cost = waited if idle is None else idle
    if evidence.share(cost) < POLICY.loader_share:
        return ()
    text = f"the loop is inside the DataLoader for {ms(waited)} per step"
    text += f", and the GPU idles {ms(idle)} of it" if idle is not None else "; no GPU work was recorded"
    return (Finding(NAME, "The loop waits for the DataLoader", cost, evidence.share(cost), None, text),)
