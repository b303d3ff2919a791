"""What detectors are given: a Timeline with everything that is measured before they run."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens.findings import AnalyzedRank, breakdown, overlap, stalls
from tracelens.model import Timeline


def analyzed(picture: Timeline, exposed: Mapping[str, int] | None = None) -> AnalyzedRank:
    """`exposed`: what each Stall by its id gives back (ns per step); without it nothing was replayed."""
    times, parts, _, _ = breakdown.measure(picture)
    waits = stalls.group(picture)
    if exposed is not None:
        waits = stalls.with_exposed(waits, dict(exposed), times.median_ns)
    return AnalyzedRank(picture, times, parts, waits, overlap.measure(picture), None)
