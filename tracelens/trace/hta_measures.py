"""GPU time by the definitions of HolisticTraceAnalysis (HTA): busy and idle time, idle time per stream and cause.

In: the `ops` and `calls` tables of a Timeline, or some of their rows. Out: numbers in ns and a DataFrame. The idle
analysis of `idle_gaps` looks at the device as a whole and asks which wait or host work caused a gap. Here each stream
is taken alone and a gap has one of three causes, so that the numbers can be compared with HTA's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tracelens.trace import intervals
from tracelens.trace.intervals import IntervalSet

KERNEL_WAIT_NS = 30_000
"""Below this a gap is the usual delay between two kernels. HTA documents 30 ns, but compares with microseconds."""
IDLE_CAUSES = ("host_wait", "kernel_wait", "other")
HOST_WAIT, KERNEL_WAIT, OTHER = range(len(IDLE_CAUSES))


@dataclass(frozen=True, slots=True)
class Temporal:
    """From the start of the first operation to the end of the last. Busy time is compute plus what runs without it."""

    span_ns: int
    idle_ns: int
    compute_ns: int
    """At least one kernel that is no collective runs."""
    non_compute_ns: int
    """Only copies, memsets or collectives run."""

    def __post_init__(self) -> None:
        parts = (self.idle_ns, self.compute_ns, self.non_compute_ns)
        if min(parts) < 0 or sum(parts) != self.span_ns:
            raise ValueError(f"idle, compute and non-compute time {parts} are no parts of {self.span_ns} ns")

    @property
    def busy_ns(self) -> int:
        return self.compute_ns + self.non_compute_ns


def temporal(ops: pd.DataFrame) -> Temporal:
    """Temporal breakdown of some GPU operations; all zero where there are none."""
    if ops.empty:
        return Temporal(0, 0, 0, 0)
    span = int(ops["end_ns"].max() - ops["start_ns"].min())
    idle = intervals.complement(_spans(ops), int(ops["start_ns"].min()), int(ops["end_ns"].max()))
    compute = _spans(ops[ops["kind"] == "kernel"])
    rest = intervals.subtract(_spans(ops[ops["kind"] != "kernel"]), compute)
    return Temporal(span, intervals.total(idle), intervals.total(compute), intervals.total(rest))


def communication_overlap(ops: pd.DataFrame) -> float | None:
    """Share of the time in collectives during which kernels run as well; None where there is no collective."""
    collectives = _spans(ops[ops["kind"] == "collective"])
    total = intervals.total(collectives)
    if not total:
        return None
    return intervals.total(intervals.intersect(collectives, _spans(ops[ops["kind"] == "kernel"]))) / total


def idle_by_stream(ops: pd.DataFrame, calls: pd.DataFrame, kernel_wait_ns: int = KERNEL_WAIT_NS) -> pd.DataFrame:
    """Idle time between the operations of each stream: `device`, `stream`, `cause`, `gaps`, `idle_ns`.

    The causes are HTA's: `host_wait`, the operation was launched after the one before it had ended; `kernel_wait`, it
    was launched in time and the gap is short; `other`, it was launched in time and still came late, or its launch is
    not recorded. Where operations of one stream overlap, a gap is negative, as in HTA.
    """
    rows = ops.sort_values(["device", "stream", "start_ns"], kind="stable")
    follows = (rows[["device", "stream"]] == rows[["device", "stream"]].shift()).all(axis=1).to_numpy()
    before = rows["end_ns"].shift(fill_value=0).to_numpy()
    call = rows["call"].to_numpy()
    launched = np.where(call >= 0, calls["start_ns"].to_numpy()[call] if len(calls) else 0, before)
    gap = rows["start_ns"].to_numpy() - before
    cause = np.where(launched > before, HOST_WAIT, np.where(gap < kernel_wait_ns, KERNEL_WAIT, OTHER))
    gaps = rows[["device", "stream"]].assign(
        cause=pd.Categorical.from_codes(cause, categories=pd.Index(IDLE_CAUSES, dtype=object)), idle_ns=gap
    )[follows]
    grouped = gaps.groupby(["device", "stream", "cause"], observed=True)["idle_ns"]
    return grouped.agg(gaps="size", idle_ns="sum").reset_index()


def _spans(ops: pd.DataFrame) -> IntervalSet:
    return intervals.union(ops["start_ns"].to_numpy(), ops["end_ns"].to_numpy())
