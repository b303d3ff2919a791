"""One rank as far as it was analyzed: the input of every detector."""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.model import Breakdown, Finding, Overlap, Owners, Run, Stall, StepTimes, Timeline
from tracelens.units import ms


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

    def share(self, recorded_ns: int) -> float:
        """A recorded time per step as a share of the recorded step."""
        return recorded_ns / self.step_ns if self.step_ns > 0 else 0.0

    def on_baseline(self, recorded_ns: int) -> int:
        """A recorded time per step as the same share of the one step time that everything is told of."""
        return round(self.share(recorded_ns) * self.steps.best_known_ns)

    def said(self, recorded_ns: int) -> str:
        """A recorded time per step in a sentence."""
        return ms(self.on_baseline(recorded_ns))

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
        """A Finding with the share that its cost, on the baseline, has; at the source line of its Stall, if any."""
        base_ns, stall_id = self.steps.best_known_ns, stall.id if stall else None
        share = cost_ns / base_ns if base_ns > 0 else 0.0
        return Finding(detector, title, cost_ns, share, stall.location if stall else None, evidence, stall=stall_id)


def calls_recorded(timeline: Timeline) -> bool:
    """Whether the host's CUDA calls are in the trace.

    Where no GPU work has its launch call, a few stray calls are no recording: that no wait is seen then means nothing.
    """
    if "runtime" not in timeline.trace.signals:
        return False
    call = timeline.tables.ops["call"]
    return not len(call) or bool((call >= 0).any())
