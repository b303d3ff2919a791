"""Copies to the GPU that stop the host: from pageable memory, or waited for at once."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_calls, no_gpu, without_copies
from tracelens.findings.stalls import described
from tracelens.messages import say
from tracelens.model import Abstention, Finding, Stall
from tracelens.units import ms

ID = "blocking_copy"


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """One Finding per source line that copies."""
    if "gpu" not in rank.signals:
        return no_gpu(ID)
    if not rank.calls_recorded:
        return no_calls(ID, rank)
    return tuple(_finding(stall, rank) for stall in rank.loop_stalls("h2d"))


def _finding(stall: Stall, rank: AnalyzedRank) -> Finding:
    """Without a replay the larger of both losses stands for the cost: the host is blocked while the GPU idles."""
    if stall.exposed_ns is not None:
        cost_ns, origin = (
            stall.exposed_ns,
            say("copying without waiting gives back {time} (predicted)", time=ms(stall.exposed_ns)),
        )
    else:
        cost_ns = max(rank.waited_ns(stall), rank.idle_ns(stall))
        origin = say("what copying without waiting gives could not be predicted")
    evidence = say("{sentence}; {more}", sentence=described(stall, rank), more=origin)
    return rank.finding(ID, say("A copy to the GPU blocks the host"), cost_ns, evidence, stall)


DETECTOR = Detector(
    id=ID, passed=say("No copy to the GPU blocks the host"), detect=_detect, not_applicable=without_copies
)
