"""Waits that leave the GPU idle: synchronizes of any kind, and reads of values."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_calls, no_gpu
from tracelens.findings.signal_dependencies import unknown_waits
from tracelens.findings.stalls import described
from tracelens.messages import say
from tracelens.model import Abstention, Finding, Stall
from tracelens.units import ms

ID = "sync_stall"
ONLY_TOGETHER = 2.0
"""Waits are a symptom as a group where removing all gives back that many times what removing each alone adds up to."""


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """One Finding per Stall, and one of those that cost something only together; what costs nothing is no symptom."""
    if "gpu" not in rank.signals:
        return no_gpu(ID)
    if not rank.calls_recorded:
        return no_calls(ID, rank)
    if rank.timeline.unknown_waits:
        return unknown_waits(rank.timeline.unknown_waits, ID)
    single = tuple(_finding(stall, rank) for stall in rank.loop_stalls("device", "stream", "event", "d2h"))
    return (*_together(rank), *single)


def _together(rank: AnalyzedRank) -> tuple[Finding, ...]:
    """Each of them removed alone only uncovers the next one; at the line where the host is blocked longest."""
    owners = rank.owners.owners if rank.owners is not None else ()
    owner = next((one for one in owners if one.kind == "wait" and "+" in (one.group or "")), None)
    members = {} if owner is None else dict.fromkeys((owner.group or "").split("+"))
    waits = [stall for stall in rank.stalls if stall.id in members]
    together_ns = owner.recoverable_ns if owner is not None else None
    alone_ns = sum(stall.exposed_ns or 0 for stall in waits)
    if together_ns is None or not waits or together_ns < ONLY_TOGETHER * alone_ns:
        return ()
    text = say(
        "removing one of {count} waits gives back {one} at most, removing all {all} (predicted)",
        count=len(waits),
        one=ms(max(stall.exposed_ns or 0 for stall in waits)),
        all=ms(together_ns),
    )
    longest = max(waits, key=lambda stall: stall.wait_ns)
    return (rank.finding(ID, say("Waits cost step time together"), together_ns, text, longest),)


def _finding(stall: Stall, rank: AnalyzedRank) -> Finding:
    """The cost is what the replay gives back without this wait, else the idle GPU time that the wait owns."""
    if stall.exposed_ns is not None:
        cost_ns, origin = (
            stall.exposed_ns,
            say("removing it alone gives back {time} (predicted)", time=ms(stall.exposed_ns)),
        )
    else:
        cost_ns = rank.idle_ns(stall)
        origin = say("what removing it gives back could not be predicted; the idle time stands for it")
    title = (
        say("Reading a value leaves the GPU idle") if stall.kind == "d2h" else say("A synchronize leaves the GPU idle")
    )
    evidence = say("{sentence}; {more}", sentence=described(stall, rank), more=origin)
    return rank.finding(ID, title, cost_ns, evidence, stall)


DETECTOR = Detector(id=ID, passed=say("No wait for the GPU costs step time"), detect=_detect)
