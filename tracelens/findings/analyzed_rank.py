"""One rank as far as it was analyzed: the input of every detector."""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.findings import kept_steps
from tracelens.model import Baseline, Breakdown, Finding, Overlap, Owners, Run, Stall, StepTimes, Timeline, baseline
from tracelens.trace import intervals, recorded_rows


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
    def baseline(self) -> Baseline:
        """How a recorded time per step becomes one of the step that everything is told of."""
        kept_ns = self.breakdown.wall_ns if self.breakdown else self.steps.median_ns
        return baseline(self.steps, self.breakdown, kept_ns)

    def share(self, told_ns: int) -> float:
        """A time on the baseline as a share of it."""
        return told_ns / self.steps.best_known_ns if self.steps.best_known_ns > 0 else 0.0

    def waited_ns(self, stall: Stall) -> int:
        """How long its waits block the host, on the baseline."""
        return self.baseline.stall(stall).wait_ns

    def spent_ns(self, host: intervals.IntervalSet) -> int:
        """What these spans of the host's time, in the kept steps, come to in a step of the baseline."""
        kept = kept_steps.select(self.timeline)
        times = recorded_rows.host_time(self.timeline, host, self.breakdown.row_ns if self.breakdown else 0.0)
        return self.baseline.spent(*map(kept.per_step, times))

    def idle_ns(self, stall: Stall) -> int:
        """How long the GPU idles for its waits, on the baseline; 0 where that is not known."""
        return self.baseline.stall(stall).gpu_idle_ns or 0

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
        place, stall_id = (stall.location, stall.id) if stall else (None, None)
        return Finding(detector, title, cost_ns, self.share(cost_ns), place, evidence, stall=stall_id)


def calls_recorded(timeline: Timeline) -> bool:
    """Whether the host's CUDA calls are in the trace.

    Where no GPU work has its launch call, a few stray calls are no recording: that no wait is seen then means nothing.
    """
    if "runtime" not in timeline.trace.signals:
        return False
    call = timeline.tables.ops["call"]
    return not len(call) or bool((call >= 0).any())
