"""Idle time of the GPU, with its causes."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_gpu
from tracelens.model import IDLE_PARTS, Abstention, Finding

ID = "idle_gpu"
LEAST_SHARE = 0.05
"""A GPU that is idle for less is healthy: what is left are launch gaps that no scheme removes."""
CAUSE = {
    "idle_sync": "waits",
    "idle_dataloader": "DataLoader",
    "idle_host": "host",
    "idle_launch": "launch latency",
    "idle_other": "other",
}


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """One Finding for all idle time; its evidence lists the causes, the largest first."""
    if "gpu" not in rank.signals or rank.breakdown is None:
        return no_gpu(ID)
    parts = {name: rank.breakdown.known[name] for name in IDLE_PARTS if name in rank.breakdown.known}
    idle_ns = sum(parts.values())
    share = rank.share(idle_ns)
    if share < LEAST_SHARE:
        return ()
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    causes = ", ".join(f"{CAUSE[name]} {rank.said(ns)}" for name, ns in ordered if ns > 0)
    text = f"idle {rank.said(idle_ns)} of {rank.said(rank.step_ns)} per step: {causes}"
    return (rank.finding(ID, f"The GPU is idle {100 * share:.0f} % of the time", rank.on_baseline(idle_ns), text),)


DETECTOR = Detector(id=ID, passed="The GPU has work nearly all the time", detect=_detect)
