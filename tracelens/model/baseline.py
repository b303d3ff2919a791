"""How a recorded time becomes one of the baseline, the one step time that everything is told of.

The profiler slows Python, not kernels: the GPU's work takes as long in both, and what is left of the baseline is idle
time, each recorded moment of it by the same factor. So every recorded time is two parts, one beside the GPU's work and
one while the GPU idles; parts, owners, waits and lines that add up as recorded add up on the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tracelens.model.findings import Breakdown, Stall, StepTimes
from tracelens.model.owners import Owner, Owners

WORK_PARTS = ("compute", "communication_exposed", "copy_exposed")


@dataclass(frozen=True, slots=True)
class Baseline:
    """`step_ns`: the step that is told of. The other three: what a recorded nanosecond of each kind becomes."""

    step_ns: int
    work: float
    """While the GPU works."""
    idle: float
    """While it does not."""
    either: float
    """Where nobody knows which."""

    @property
    def keeps_work(self) -> bool:
        """Whether work and idle time are brought to the baseline by factors of their own."""
        return self.work != self.idle

    def worked(self, recorded_ns: int) -> int:
        return round(recorded_ns * self.work)

    def idled(self, recorded_ns: int) -> int:
        return round(recorded_ns * self.idle)

    def spent(self, recorded_ns: int, idle_ns: int | None) -> int:
        """Time of the host, in `idle_ns` of which the GPU idles; None: not known in how much."""
        if idle_ns is None:
            return round(recorded_ns * self.either)
        return round((recorded_ns - idle_ns) * self.work + idle_ns * self.idle)

    def parts(self, recorded: Breakdown) -> Breakdown:
        factors = {part: self.work if part in WORK_PARTS else self.idle for part in recorded.parts}
        brought = {part: None if ns is None else round(ns * factors[part]) for part, ns in recorded.parts.items()}
        return Breakdown(sum(ns for ns in brought.values() if ns is not None), brought)

    def stall(self, recorded: Stall) -> Stall:
        idle_ns = None if recorded.gpu_idle_ns is None else self.idled(recorded.gpu_idle_ns)
        inside_ns = None if recorded.idle_inside_ns is None else self.idled(recorded.idle_inside_ns)
        wait_ns = self.spent(recorded.wait_ns, recorded.idle_inside_ns)
        return replace(recorded, wait_ns=wait_ns, gpu_idle_ns=idle_ns, idle_inside_ns=inside_ns)

    def owners(self, recorded: Owners) -> Owners:
        brought = (replace(owner, owned_ns=self._owned(owner)) for owner in recorded.owners)
        owners = tuple(sorted(brought, key=lambda owner: -owner.owned_ns))
        return replace(recorded, wall_ns=sum(owner.owned_ns for owner in owners), owners=owners)

    def _owned(self, owner: Owner) -> int:
        return self.worked(owner.owned_ns) if owner.is_gpu_work else self.idled(owner.owned_ns)


def baseline(steps: StepTimes, parts: Breakdown | None, recorded_ns: int) -> Baseline:
    """`recorded_ns`: the mean recorded step, which parts and owners add up to.

    All is one factor where no GPU worked, where no steps were found for certain, and where the baseline is the recorded
    step itself, whose median need not be its mean. Work that takes longer than the baseline fills it: then the host
    was what kept the GPU waiting under the profiler, and is not without it. A recording without idle time has none to
    stretch.
    """
    step_ns = steps.best_known_ns
    if recorded_ns <= 0 or step_ns <= 0:
        return Baseline(step_ns, 1.0, 1.0, 1.0)
    either = step_ns / recorded_ns
    recorded = steps.baseline_source == "recorded" or steps.source == "none" or not steps.certain
    if parts is None or recorded:
        return Baseline(step_ns, either, either, either)
    work_ns = sum(ns for part, ns in parts.known.items() if part in WORK_PARTS)
    idle_ns = parts.wall_ns - work_ns
    if idle_ns <= 0 or work_ns >= step_ns:
        return Baseline(step_ns, step_ns / max(work_ns, 1), 0.0, either)
    return Baseline(step_ns, 1.0, (step_ns - work_ns) / idle_ns, either)
