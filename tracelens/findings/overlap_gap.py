"""Copies to the GPU that no computation hides."""

from __future__ import annotations

from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_calls, no_gpu, without_copies
from tracelens.messages import say, say_count
from tracelens.model import Abstention, Finding
from tracelens.units import ms

ID = "overlap_gap"


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """The cost is the blocking part of the exposed copies: what hiding them can win."""
    overlap = rank.overlap
    if "gpu" not in rank.signals or overlap is None:
        return no_gpu(ID)
    if not overlap.h2d_ns:
        return ()
    if overlap.h2d_blocking_ns is None:
        return no_calls(ID, rank)
    hidden = 100 * overlap.h2d_hidden_ns / overlap.h2d_ns
    told = rank.baseline.worked
    text = say_count(
        "copies to the GPU take {time} per step, {hidden:.0f} % of it under computation, "
        "{exposed} not hidden, {blocking} of that while the next kernel waits; {count} stream in use",
        "copies to the GPU take {time} per step, {hidden:.0f} % of it under computation, "
        "{exposed} not hidden, {blocking} of that while the next kernel waits; {count} streams in use",
        overlap.streams_used,
        time=ms(told(overlap.h2d_ns)),
        hidden=hidden,
        exposed=ms(told(overlap.h2d_exposed_ns)),
        blocking=ms(told(overlap.h2d_blocking_ns)),
    )
    cost_ns = told(overlap.h2d_blocking_ns)
    return (rank.finding(ID, say("Copies are not hidden behind computation"), cost_ns, text),)


DETECTOR = Detector(id=ID, passed=say("Copies hide under compute"), detect=_detect, not_applicable=without_copies)
