"""The training loop inside the DataLoader's `__next__`."""

from __future__ import annotations

from tracelens.findings import kept_steps
from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector
from tracelens.messages import say
from tracelens.model import Abstention, Finding
from tracelens.trace import intervals
from tracelens.units import ms

ID = "dataloader_wait"
LEAST_SHARE = 0.02
"""Fetching a batch that is ready takes some 0.1 ms, so a healthy loader stays below this share of the step."""


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """The cost is the idle GPU time inside the loader; without a GPU the wait itself."""
    if "dataloader" not in rank.signals:
        return Abstention(
            ID,
            say("the trace does not show when the loop was inside a DataLoader"),
            say("record CPU activities and take batches from a torch DataLoader: tracelens profile"),
        )
    kept = kept_steps.select(rank.timeline)
    loader = rank.timeline.tables.loader
    inside = intervals.intersect(intervals.union(loader["start_ns"], loader["end_ns"]), kept.covered)
    waited_ns = rank.spent_ns(inside)
    idle_ns = rank.baseline.parts(rank.breakdown).parts["idle_dataloader"] if rank.breakdown else None
    cost_ns = waited_ns if idle_ns is None else idle_ns
    if rank.share(cost_ns) < LEAST_SHARE:
        return ()
    text = say("the loop is inside the DataLoader for {time} per step", time=ms(waited_ns))
    if idle_ns is not None:
        text = say("{text}, and the GPU idles {time} of it", text=text, time=ms(idle_ns))
    else:
        text = say("{text}; no GPU work was recorded", text=text)
    batch = rank.owners.batch if rank.owners is not None else None
    evidence = say("{sentence}; {more}", sentence=text, more=batch.said) if batch is not None else text
    return (rank.finding(ID, say("The loop waits for the DataLoader"), cost_ns, evidence),)


DETECTOR = Detector(id=ID, passed=say("The DataLoader keeps up"), detect=_detect)
