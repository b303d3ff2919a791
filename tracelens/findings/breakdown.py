"""Where the wall time of a step goes: work on the GPU, and idle time by cause. The parts add up to the wall time.

In: a Timeline. Out: StepTimes, a Breakdown, the busy and the idle share; the last three are None where no GPU worked,
and where the recording lacks too much to say. Work is cut at the borders of the kept steps on the host's clock. In a
steady loop the work that a step leaves to the next one equals the work that it received.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens.findings import kept_steps
from tracelens.model import IDLE_PARTS, Breakdown, RankTimes, StepClock, StepTimes, Timeline
from tracelens.trace import intervals, recorded_rows, streams
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
    parts = _parts(timeline, device, kept.covered)
    wall = kept.wall_ns
    idle = sum(ns for name, ns in parts.items() if name.startswith("idle_"))
    per_step = {name: kept.per_step(ns) for name, ns in parts.items()}
    recorded = Breakdown(kept.step_ns, per_step)
    if times.unprofiled_median_ns is not None:
        recorded = _with_profiler(recorded, times.unprofiled_median_ns, timeline, device)
    return times, recorded, (wall - idle) / wall, idle / wall


def _with_profiler(recorded: Breakdown, unprofiled_ns: int, timeline: Timeline, device: int) -> Breakdown:
    """With what the profiler's rows took of each idle part: as much as makes the steps longer than without it, as far
    as a row can cost that."""
    kept, longer_ns = kept_steps.select(timeline), recorded.wall_ns - unprofiled_ns
    if longer_ns <= 0:
        return recorded
    rows = recorded_rows.in_idle_time(timeline, kept.covered)
    row_ns = rows.row_ns(longer_ns * kept.count)
    taken = _parts(timeline, device, rows.spans(row_ns))
    own = {part: min(kept.per_step(taken[part]), recorded.known[part]) for part in IDLE_PARTS}
    return replace(recorded, row_ns=row_ns, profiler_ns=own)


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
        unprofiled_mean_ns=round(float(np.mean(clock.unprofiled_ns))) if clock and clock.unprofiled_ns else None,
        certain=timeline.trace.completeness.host_is_whole or timeline.step_source not in INFERRED,
    )


def _unprofiled(clock: StepClock | None) -> int | None:
    if clock is None:
        return None
    if clock.unprofiled_ns:
        return round(float(np.median(clock.unprofiled_ns)))
    return clock.unprofiled_mean_ns


def _parts(timeline: Timeline, device: int, left: intervals.IntervalSet) -> dict[str, int]:
    """Nanoseconds of `left` by owner; each instant has one, given out in this order."""
    ops, gaps = timeline.tables.ops, timeline.tables.gaps
    ran, idle = (table["device"] == device for table in (ops, gaps))
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
