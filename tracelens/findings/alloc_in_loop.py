"""Driver allocations inside the loop."""

from __future__ import annotations

from tracelens.findings import kept_steps
from tracelens.findings.evidence import Evidence, no_calls
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding
from tracelens.trace.tables import among
from tracelens.units import ms

NAME = "alloc_in_loop"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """cudaMalloc, cudaFree and their like, at least once per step and for longer than noise."""
    if not evidence.calls_recorded:
        return no_calls(NAME)
    kept = kept_steps.select(evidence.timeline)
    calls = evidence.timeline.calls()
    own = calls[among(calls["kind"], "alloc", "free") & kept.holds(calls["step"])]
    per_step = len(own) / kept.count
    cost = round(int((own["end_ns"] - own["start_ns"]).sum()) / kept.count)
    if per_step < POLICY.allocations or evidence.share(cost) < POLICY.harmless_share:
        return ()
    names = ", ".join(sorted({str(name) for name in own["name"]})[:3])
    text = f"{per_step:.3g} calls per step ({names}) hold the host for {ms(cost)}"
    return (Finding(NAME, "GPU memory is allocated in the loop", cost, evidence.share(cost), None, text),)
