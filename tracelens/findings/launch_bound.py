"""Many short kernels: the host cannot issue them as fast as the GPU runs them."""

from __future__ import annotations

import numpy as np

from tracelens.findings import kept_steps
from tracelens.findings.evidence import Evidence, no_calls, no_gpu
from tracelens.findings.policy import POLICY
from tracelens.model import Abstention, Finding
from tracelens.trace.tables import among
from tracelens.units import ms

NAME = "launch_bound"


def detect(evidence: Evidence) -> tuple[Finding, ...] | Abstention:
    """Idle time owned by the host and by launch latency, where launches are many and kernels short."""
    if "gpu" not in evidence.signals or evidence.breakdown is None:
        return no_gpu(NAME)
    if not evidence.calls_recorded:
        return no_calls(NAME)
    kept = kept_steps.select(evidence.timeline)
    calls, ops = evidence.timeline.calls(), evidence.timeline.ops()
    launches = np.count_nonzero(among(calls["kind"], "launch") & kept.holds(calls["step"])) / kept.count
    kernels = among(ops["kind"], "kernel") & kept.holds(ops["step"])
    if not kernels.any():
        return ()
    median = float(np.median((ops["end_ns"].to_numpy() - ops["start_ns"].to_numpy())[kernels]))
    cost = evidence.breakdown.parts["idle_host"] + evidence.breakdown.parts["idle_launch"]
    slow_host = evidence.share(cost) >= POLICY.launch_share
    if not slow_host or launches < POLICY.launches or median > POLICY.short_kernel_ns:
        return ()
    text = (
        f"{launches:.0f} launches per step of kernels that run {median / 1e3:.1f} µs in the middle; "
        f"the GPU idles {ms(cost)} per step because the next launch is not there yet{_profiled(evidence)}"
    )
    title = "The host cannot issue kernels as fast as they run"
    return (Finding(NAME, title, cost, evidence.share(cost), None, text),)


def _profiled(evidence: Evidence) -> str:
    """How much of that the profiler made itself, as far as it is known."""
    bare, traced = evidence.steps.unprofiled_median_ns, evidence.steps.median_ns
    if bare is None:
        return "; how much of it the profiler made is not known"
    return f"; the step takes {ms(bare)} without the profiler and {ms(traced)} with it"
