"""Collectives that no computation hides."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_gpu
from tracelens.messages import say
from tracelens.model import Abstention, Finding
from tracelens.units import ms

ID = "exposed_communication"


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """The cost is the time in which a collective runs alone. It contains the wait for the slowest rank."""
    if "gpu" not in rank.signals or rank.breakdown is None:
        return no_gpu(ID)
    cost_ns = rank.baseline.worked(rank.breakdown.known["communication_exposed"])
    text = say(
        "collectives run {cost} per step with no kernel beside them; waiting for other ranks is part of it",
        cost=ms(cost_ns),
    )
    return (rank.finding(ID, say("Communication is not hidden"), cost_ns, text),)


def _not_applicable(rank: AnalyzedRank) -> str | None:
    return None if "collectives" in rank.signals else say("the recording has no collectives")


DETECTOR = Detector(
    id=ID, passed=say("Communication hides under compute"), detect=_detect, not_applicable=_not_applicable
)
