"""Where the wall time of a step goes: work on the GPU, and idle time by cause. The parts add up to the wall time.

In: a Timeline. Out: StepTimes, a Breakdown, the busy and the idle share; the last three are None where no GPU worked,
and where the recording lacks too much to say. Work is cut at the borders of the kept steps on the host's clock. In a
steady loop the work that a step leaves to the next one equals the work that it received.
"""

from __future__ import annotations

import numpy as np

from tracelens.findings import kept_steps
from tracelens.model import Breakdown, RankTimes, StepClock, StepTimes, Timeline
from tracelens.trace import intervals, streams
from tracelens.trace.tables import among

_COMPUTE = ("kernel", "memset")
INFERRED = ("cycle", "none")
"""Step sources that are no marks but what the recorded calls add up to."""
_CAUSES = ("sync", "dataloader", "host", "launch")


Measured = tuple[StepTimes, Breakdown | None, float | None, float | None]
"""Step times, breakdown, GPU busy share and idle share."""


def measure(timeline: Timeline, clock: StepClock | None = None) -> Measured:
    """Step times, breakdown, GPU busy share and idle share over the kept steps."""
    kept = kept_steps.select(timeline)
    times = _step_times(timeline, kept, clock)
    device = streams.main_device(timeline.tables.ops)
    if device is None or not timeline.coverage.judged:
        return times, None, None, None
    parts = _parts(timeline, kept, device)
    wall = kept.wall_ns
    idle = sum(ns for name, ns in parts.items() if name.startswith("idle_"))
    per_step = {name: kept.per_step(ns) for name, ns in parts.items()}
    return times, Breakdown(kept.step_ns, per_step), (wall - idle) / wall, idle / wall


def rank_times(rank: int | None, measured: Measured) -> RankTimes:
    """One rank of several, to be held against the others."""
    times, parts, busy, _ = measured
    alone = parts.known["communication_exposed"] if parts is not None else None
    return RankTimes(rank, times.count, times.median_ns, busy, alone)


def _step_times(timeline: Timeline, kept: kept_steps.KeptSteps, clock: StepClock | None) -> StepTimes:
    lengths = kept.ends - kept.starts
    low, middle, high = np.percentile(lengths, [5, 50, 95])
    return StepTimes(
        count=kept.count,
        source=timeline.step_source,
        median_ns=round(middle),
        p05_ns=round(low),
        p95_ns=round(high),
        unprofiled_median_ns=_unprofiled(clock),
        certain=timeline.trace.completeness.host_is_whole or timeline.step_source not in INFERRED,
    )


def _unprofiled(clock: StepClock | None) -> int | None:
    if clock is None:
        return None
    if clock.unprofiled_ns:
        return round(float(np.median(clock.unprofiled_ns)))
    return clock.unprofiled_mean_ns


def _parts(timeline: Timeline, kept: kept_steps.KeptSteps, device: int) -> dict[str, int]:
    """Nanoseconds of all kept steps together; each instant has one owner, given out in this order."""
    ops, gaps = timeline.tables.ops, timeline.tables.gaps
    ran, idle = (table["device"] == device for table in (ops, gaps))
    left = kept.covered
    parts: dict[str, int] = {}
    for name, kinds in (("compute", _COMPUTE), ("communication_exposed", ("collective",)), ("copy_exposed", ("copy",))):
        own = intervals.intersect(kept_steps.spans(ops, ran & among(ops["kind"], *kinds)), left)
        parts[name] = intervals.total(own)
        left = intervals.subtract(left, own)
    for cause in _CAUSES:
        own = intervals.intersect(kept_steps.spans(gaps, idle & among(gaps["cause"], cause)), left)
        parts[f"idle_{cause}"] = intervals.total(own)
        left = intervals.subtract(left, own)
    parts["idle_other"] = intervals.total(left)  # measured, not the remainder: else the parts could not but add up
    return parts
