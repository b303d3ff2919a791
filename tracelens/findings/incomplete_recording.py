"""What an incomplete recording can and cannot tell, as Abstentions.

A file that ends early, or that lacks GPU rows, still shows some steps completely, on the host and on the GPU: these are
judged, and the Abstention names them. Where no step is complete nothing is judged; then each question that would have
been asked has an Abstention with the reason, instead of a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens.model import Abstention, Coverage, InventoryItem, Timeline, Trace
from tracelens.units import ms

ID = "recording"
HINT = "record again, and let the profiler write its file to the end: tracelens profile SCRIPT"
NO_STEP = "no step is complete on host and GPU"


def abstentions(timeline: Timeline, traces: Sequence[Trace]) -> tuple[Abstention, ...]:
    """What is missing: of the rank that is reported which part was judged, of the others only that they lack rows."""
    own = () if timeline.coverage.whole else (Abstention(ID, _judged(timeline.coverage), HINT),)
    others = (trace for trace in traces if trace.path != timeline.trace.path and trace.completeness.reason)
    return (*own, *(Abstention(ID, f"{_rank(trace)}: {trace.completeness.reason}", HINT) for trace in others))


def unjudged(question: str, coverage: Coverage) -> Abstention | None:
    """Why a question cannot be answered; None where it can, at least on some steps."""
    if coverage.judged:
        return None
    return Abstention(question, f"{coverage.reason}, and {NO_STEP}", HINT)


def without_absences(items: Sequence[InventoryItem], coverage: Coverage) -> tuple[InventoryItem, ...]:
    """The inventory without its negatives: what an incomplete file does not show may be in what is missing."""
    if coverage.whole:
        return tuple(items)
    return tuple(
        replace(item, present=None, evidence=f"{coverage.reason}; in what is there: {item.evidence}")
        if item.present is False
        else item
        for item in items
    )


def _judged(coverage: Coverage) -> str:
    if coverage.span_ns is None:
        return f"{coverage.reason}, and {NO_STEP}: nothing that depends on the missing rows is judged"
    begin, end = coverage.span_ns
    return (
        f"{coverage.reason}; {coverage.complete_steps} of the {coverage.steps} steps in it are complete on host and GPU"
        f" and are judged (from {ms(begin)} to {ms(end)} of the recording)"
    )


def _rank(trace: Trace) -> str:
    return "another file" if trace.rank is None else f"rank {trace.rank}"
