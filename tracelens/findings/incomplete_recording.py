"""What an incomplete recording can and cannot tell, as Abstentions.

A file that ends early, or that lacks GPU rows, still shows some steps completely, on the host and on the GPU: these are
judged, and the Abstention names them. Where no step is complete nothing is judged; then each question that would have
been asked has an Abstention with the reason, instead of a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens.messages import say
from tracelens.model import Abstention, Coverage, InventoryItem, Timeline, Trace
from tracelens.units import ms

ID = "recording"
HINT = say("record again, and let the profiler write its file to the end: tracelens profile SCRIPT")
NO_STEP = say("no step is complete on host and GPU")


def abstentions(timeline: Timeline, traces: Sequence[Trace]) -> tuple[Abstention, ...]:
    """What is missing: of the rank that is reported which part was judged, of the others only that they lack rows."""
    own = () if timeline.coverage.whole else (Abstention(ID, _judged(timeline.coverage), HINT),)
    others = (trace for trace in traces if trace.path != timeline.trace.path and trace.completeness.reason)
    return (
        *own,
        *(
            Abstention(ID, say("{rank}: {reason}", rank=_rank(trace), reason=trace.completeness.reason), HINT)
            for trace in others
        ),
    )


def unjudged(question: str, coverage: Coverage) -> Abstention | None:
    """Why a question cannot be answered; None where it can, at least on some steps."""
    if coverage.judged:
        return None
    return Abstention(question, say("{reason}, and {what}", reason=coverage.reason, what=NO_STEP), HINT)


def without_absences(items: Sequence[InventoryItem], coverage: Coverage) -> tuple[InventoryItem, ...]:
    """The inventory without its negatives: what an incomplete file does not show may be in what is missing."""
    if coverage.whole:
        return tuple(items)
    return tuple(
        replace(
            item,
            present=None,
            evidence=say("{reason}; in what is there: {evidence}", reason=coverage.reason, evidence=item.evidence),
        )
        if item.present is False
        else item
        for item in items
    )


def _judged(coverage: Coverage) -> str:
    if coverage.span_ns is None:
        return say(
            "{reason}, and {what}: nothing that depends on the missing rows is judged",
            reason=coverage.reason,
            what=NO_STEP,
        )
    begin, end = coverage.span_ns
    return say(
        "{reason}; {complete} of the {steps} steps in it are complete on host and GPU"
        " and are judged (from {begin} to {end} of the recording)",
        reason=coverage.reason,
        complete=coverage.complete_steps,
        steps=coverage.steps,
        begin=ms(begin),
        end=ms(end),
    )


def _rank(trace: Trace) -> str:
    return say("another file") if trace.rank is None else say("rank {rank}", rank=trace.rank)
