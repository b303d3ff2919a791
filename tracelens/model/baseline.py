"""How a recorded time becomes one of the baseline, the one step time that everything is told of.

The profiler slows the host where it records a row, and no kernel: the GPU's work takes as long in both, and what is
left of the baseline is idle time. Of that goes first what the rows took, where they are, so that Python between two
rows keeps its time; what rows do not explain is one factor for the rest. So every recorded time is three parts: beside
the GPU's work, while the GPU idles, and of that the profiler's own. Parts, owners, waits and lines that add up as
recorded add up on the baseline.
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
    """While it does not, and no row is recorded."""
    either: float
    """Where nobody knows which."""

    @property
    def keeps_work(self) -> bool:
        """Whether work and idle time are brought to the baseline by factors of their own."""
        return self.work != self.idle

    def worked(self, recorded_ns: int) -> int:
        return round(recorded_ns * self.work)

    def idled(self, recorded_ns: int, profiler_ns: int) -> int:
        """Idle time, of which so much is the profiler's."""
        return round((recorded_ns - profiler_ns) * self.idle)

    def spent(self, recorded_ns: int, idle_ns: int | None, profiler_ns: int) -> int:
        """Time of the host, in `idle_ns` of which the GPU idles; None: not known in how much."""
        if idle_ns is None:
            return round(recorded_ns * self.either)
        return round((recorded_ns - idle_ns) * self.work + (idle_ns - profiler_ns) * self.idle)

    def parts(self, recorded: Breakdown) -> Breakdown:
        brought = {part: None if ns is None else self._part(recorded, part, ns) for part, ns in recorded.parts.items()}
        return Breakdown(sum(ns for ns in brought.values() if ns is not None), brought, recorded.row_ns)

    def _part(self, recorded: Breakdown, part: str, ns: int) -> int:
        return self.worked(ns) if part in WORK_PARTS else self.idled(ns, recorded.profiler_ns.get(part, 0))

    def stall(self, recorded: Stall) -> Stall:
        idle_ns, inside_ns = recorded.gpu_idle_ns, recorded.idle_inside_ns
        return replace(
            recorded,
            wait_ns=self.spent(recorded.wait_ns, inside_ns, recorded.profiler_inside_ns),
            gpu_idle_ns=None if idle_ns is None else self.idled(idle_ns, recorded.profiler_ns),
            idle_inside_ns=None if inside_ns is None else self.idled(inside_ns, recorded.profiler_inside_ns),
            profiler_ns=0,
            profiler_inside_ns=0,
        )

    def owners(self, recorded: Owners) -> Owners:
        brought = (replace(owner, owned_ns=self.owned(owner), profiler_ns=0) for owner in recorded.owners)
        owners = tuple(sorted(brought, key=lambda owner: -owner.owned_ns))
        loops = tuple(replace(one, owned_ns=self.owned(one), profiler_ns=0) for one in recorded.loops)
        return replace(recorded, wall_ns=sum(owner.owned_ns for owner in owners), owners=owners, loops=loops)

    def owned(self, owner: Owner) -> int:
        return self.worked(owner.owned_ns) if owner.is_gpu_work else self.idled(owner.owned_ns, owner.profiler_ns)


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
    idle_ns = parts.wall_ns - work_ns - sum(parts.profiler_ns.values())
    if idle_ns <= 0 or work_ns >= step_ns:
        return Baseline(step_ns, step_ns / max(work_ns, 1), 0.0, either)
    return Baseline(step_ns, 1.0, (step_ns - work_ns) / idle_ns, either)
