"""Idle time of the GPU, with its causes."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_gpu
from tracelens.messages import joined, say
from tracelens.model import IDLE_PARTS, Abstention, Finding
from tracelens.units import ms

ID = "idle_gpu"
LEAST_SHARE = 0.05
"""A GPU that is idle for less is healthy: what is left are launch gaps that no scheme removes."""
CAUSE = {
    "idle_sync": say("waits"),
    "idle_dataloader": "DataLoader",
    "idle_host": say("host"),
    "idle_launch": say("launch latency"),
    "idle_other": say("other"),
}


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """One Finding for all idle time; its evidence lists the causes, the largest first."""
    if "gpu" not in rank.signals or rank.breakdown is None:
        return no_gpu(ID)
    known = rank.baseline.parts(rank.breakdown).known
    parts = {name: known[name] for name in IDLE_PARTS if name in known}
    idle_ns = sum(parts.values())
    share = rank.share(idle_ns)
    if share < LEAST_SHARE:
        return ()
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    causes = joined(", ", [say("{cause} {time}", cause=CAUSE[name], time=ms(ns)) for name, ns in ordered if ns > 0])
    text = say(
        "idle {idle} of {step} per step: {causes}", idle=ms(idle_ns), step=ms(rank.steps.best_known_ns), causes=causes
    )
    title = say("The GPU is idle {share:.0f} % of the time", share=100 * share)
    return (rank.finding(ID, title, idle_ns, text),)


DETECTOR = Detector(id=ID, passed=say("The GPU has work nearly all the time"), detect=_detect)
