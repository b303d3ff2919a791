"""The training loop inside the DataLoader's `__next__`."""

from __future__ import annotations

from tracelens.findings import kept_steps
from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector
from tracelens.model import Abstention, Finding
from tracelens.trace import intervals

ID = "dataloader_wait"
LEAST_SHARE = 0.02
"""Fetching a batch that is ready takes some 0.1 ms, so a healthy loader stays below this share of the step."""


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """The cost is the idle GPU time inside the loader; without a GPU the wait itself."""
    if "dataloader" not in rank.signals:
        return Abstention(
            ID,
            "the trace does not show when the loop was inside a DataLoader",
            "record CPU activities and take batches from a torch DataLoader: tracelens profile",
        )
    kept = kept_steps.select(rank.timeline)
    loader = rank.timeline.loader_waits()
    inside = intervals.intersect(intervals.union(loader["start_ns"], loader["end_ns"]), kept.covered)
    waited_ns = round(intervals.total(inside) / kept.count)
    idle_ns = rank.breakdown.parts["idle_dataloader"] if rank.breakdown else None
    cost_ns = waited_ns if idle_ns is None else idle_ns
    if rank.share(cost_ns) < LEAST_SHARE:
        return ()
    text = f"the loop is inside the DataLoader for {rank.said(waited_ns)} per step"
    text += f", and the GPU idles {rank.said(idle_ns)} of it" if idle_ns is not None else "; no GPU work was recorded"
    text += _of_a_batch(rank)
    return (rank.finding(ID, "The loop waits for the DataLoader", rank.on_baseline(cost_ns), text),)


def _of_a_batch(rank: AnalyzedRank) -> str:
    """What a batch is spent on, where that was recorded."""
    batch = rank.owners.batch if rank.owners is not None else None
    return f"; {batch}" if batch is not None else ""


DETECTOR = Detector(id=ID, passed="The DataLoader keeps up", detect=_detect)
