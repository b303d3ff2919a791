"""One rank as far as it was analyzed: the input of every detector."""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.model import Breakdown, Finding, Overlap, Owners, Run, Stall, StepTimes, Timeline


@dataclass(frozen=True, slots=True)
class AnalyzedRank:
    """What is known of the rank before detectors run. None means not known, as in the model."""

    timeline: Timeline
    steps: StepTimes
    breakdown: Breakdown | None
    stalls: tuple[Stall, ...]
    overlap: Overlap | None
    run: Run | None
    owners: Owners | None = None

    @property
    def step_ns(self) -> int:
        """The step time that a share refers to: the wall time of the breakdown, so that shares and parts agree."""
        return self.breakdown.wall_ns if self.breakdown else self.steps.median_ns

    def share(self, cost_ns: int) -> float:
        """A cost per step as a share of the step time."""
        return cost_ns / self.step_ns if self.step_ns > 0 else 0.0

    @property
    def signals(self) -> frozenset[str]:
        return self.timeline.trace.signals

    @property
    def calls_recorded(self) -> bool:
        return calls_recorded(self.timeline)

    def loop_stalls(self, *kinds: str) -> tuple[Stall, ...]:
        """Stalls of these kinds, without the profiler's own wait at the edge of the window."""
        return tuple(stall for stall in self.stalls if stall.kind in kinds and stall.verdict != "window_edge")

    def finding(self, detector: str, title: str, cost_ns: int, evidence: str, stall: Stall | None = None) -> Finding:
        """A Finding with the share that its cost has; at the source line of the Stall that it is about, if any."""
        share, stall_id = self.share(cost_ns), stall.id if stall else None
        return Finding(detector, title, cost_ns, share, stall.location if stall else None, evidence, stall=stall_id)


def calls_recorded(timeline: Timeline) -> bool:
    """Whether the host's CUDA calls are in the trace.

    Where no GPU work has its launch call, a few stray calls are no recording: that no wait is seen then means nothing.
    """
    if "runtime" not in timeline.trace.signals:
        return False
    call = timeline.ops()["call"].to_numpy()
    return not len(call) or bool((call >= 0).any())
