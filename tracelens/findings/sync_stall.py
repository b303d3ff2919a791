"""Waits that leave the GPU idle: synchronizes of any kind, and reads of values."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_calls, no_gpu
from tracelens.findings.signal_dependencies import unknown_waits
from tracelens.findings.stalls import described
from tracelens.model import Abstention, Finding, Stall
from tracelens.units import ms

ID = "sync_stall"


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """One Finding per Stall; a wait that costs nothing is no symptom."""
    if "gpu" not in rank.signals:
        return no_gpu(ID)
    if not rank.calls_recorded:
        return no_calls(ID, rank)
    if rank.timeline.unknown_waits:
        return unknown_waits(rank.timeline.unknown_waits, ID)
    return tuple(_finding(stall, rank) for stall in rank.loop_stalls("device", "stream", "event", "d2h"))


def _finding(stall: Stall, rank: AnalyzedRank) -> Finding:
    """The cost is what the replay gives back without this wait, else the idle GPU time that the wait owns."""
    if stall.exposed_ns is not None:
        cost_ns, origin = stall.exposed_ns, f"removing it alone gives back {ms(stall.exposed_ns)} (replay)"
    else:
        cost_ns = stall.gpu_idle_ns or 0
        origin = "what removing it gives back was not replayed; the idle time stands for it"
    title = "Reading a value from the GPU stalls it" if stall.kind == "d2h" else "A synchronize stalls the GPU"
    return rank.finding(ID, title, cost_ns, f"{described(stall)}; {origin}", stall)


DETECTOR = Detector(id=ID, passed="No wait for the GPU costs step time", detect=_detect)
