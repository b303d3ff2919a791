"""Driver allocations inside the loop: cudaMalloc, cudaFree and their like."""

from __future__ import annotations

from tracelens.findings import kept_steps
from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_calls
from tracelens.messages import say
from tracelens.model import Abstention, Finding
from tracelens.trace import intervals
from tracelens.trace.tables import among
from tracelens.units import ms

ID = "alloc_in_loop"
FEWEST_CALLS_PER_STEP = 1.0
"""One driver allocation in every step is a habit of the loop; fewer may be an allocator pool that still grows."""


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """The cost is the host time inside the calls."""
    if not rank.calls_recorded:
        return no_calls(ID, rank)
    kept = kept_steps.select(rank.timeline)
    calls = rank.timeline.tables.calls
    allocations = calls[among(calls["kind"], "alloc", "free") & kept.holds(calls["step"])]
    per_step = len(allocations) / kept.count
    held_ns = rank.spent_ns(intervals.union(allocations["start_ns"], allocations["end_ns"]))
    if per_step < FEWEST_CALLS_PER_STEP:
        return ()
    names = ", ".join(sorted(allocations["name"].used())[:3])
    text = say(
        "{calls:.3g} calls per step ({names}) hold the host for {time}",
        calls=per_step,
        names=names,
        time=ms(held_ns),
    )
    return (rank.finding(ID, say("GPU memory is allocated in the loop"), held_ns, text),)


DETECTOR = Detector(id=ID, passed=say("No driver allocation inside the loop"), detect=_detect)
