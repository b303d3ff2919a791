"""What every detector looks at, and the two sentences that several of them need.

In: nothing. Out: `Evidence`. Apart from the package's `__init__` so that detectors can import it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.model import Abstention, Breakdown, Overlap, Run, Stall, StepTimes, Timeline
from tracelens.units import ms

Cost = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One rank, as far as it was analyzed. None means what it means in the model: not known."""

    timeline: Timeline
    steps: StepTimes
    breakdown: Breakdown | None
    stalls: tuple[Stall, ...]
    overlap: Overlap | None
    run: Run | None

    @property
    def step_ns(self) -> int:
        """The step that a share refers to: the wall time of the breakdown, so that shares and parts agree."""
        return self.breakdown.wall_ns if self.breakdown else self.steps.median_ns

    def share(self, cost_ns: int) -> float:
        return cost_ns / self.step_ns if self.step_ns > 0 else 0.0

    @property
    def signals(self) -> frozenset[str]:
        return self.timeline.trace.signals

    @property
    def calls_recorded(self) -> bool:
        return calls_recorded(self.timeline)

    def counted(self, *kinds: str) -> tuple[Stall, ...]:
        """Stalls of these kinds that are the loop's own."""
        return tuple(stall for stall in self.stalls if stall.kind in kinds and stall.verdict != "window_edge")


def calls_recorded(timeline: Timeline) -> bool:
    """Whether the host's calls are in the trace. Where no GPU work has its launch, a few stray calls are no recording:
    that no wait is seen then means nothing."""
    if "runtime" not in timeline.trace.signals:
        return False
    call = timeline.ops()["call"].to_numpy()
    return not len(call) or bool((call >= 0).any())


def no_gpu(detector: str) -> Abstention:
    return Abstention(detector, "no GPU work was recorded", "profile on a machine with a GPU, with CUDA activities on")


def no_calls(detector: str) -> Abstention:
    return Abstention(
        detector,
        "the host's CUDA calls were not recorded",
        "record CPU and CUDA activities together: tracelens profile",
    )


def cost_of(stall: Stall) -> Cost:
    """What a Stall costs per step and how that is known: by replay, else the idle GPU time that it owns."""
    if stall.exposed_ns is not None:
        return stall.exposed_ns, f"removing it alone gives back {ms(stall.exposed_ns)} (replay)"
    return stall.gpu_idle_ns, "what removing it gives back was not replayed; the idle time stands for it"


def waits(stall: Stall) -> str:
    """'cudaDeviceSynchronize, 1 call per step, blocks the host for 310 µs, the GPU idles 120 µs for it'."""
    calls = "1 call" if stall.calls_per_step == 1 else f"{stall.calls_per_step:.3g} calls"
    name = f"{stall.call} ({stall.api})" if stall.call else stall.api
    blocked, idle = ms(stall.wait_ns), ms(stall.gpu_idle_ns)
    return f"{name}, {calls} per step, blocks the host for {blocked}, the GPU idles {idle} for it"
