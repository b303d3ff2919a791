"""Runs of launches and host work, merged into one operation each: host time, and one (max,+) map per stream.

In: HostOps or OpColumns, and the profiler's cost per recorded row. Out: CompiledOps. A stream's end after a run of
launches is max(host + a, end + b): a and b are computed once, so that a pass over them costs the same however many
launches a run has. For OpColumns this is done for all blocks of a ReplayTrace at once, in numpy.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tracelens.replay.replay_trace import HostOp, Integers, OpColumns, is_launch_or_host_work

LEAST_HOST_SHARE = 0.2
"""The profiler's overhead is subtracted from a host time down to this share of it: Python always takes some time."""
LONGEST_RUN = 32
"""Launches merged into one operation: the launch-queue limit (about 1,000) is kept to within this many."""
SPEEDS = 8
"""Compiled columns that are kept: three host speeds, of a trace and of the same trace without a line."""
_NEVER = -(1 << 62)
_HOST_WORK = HostOp("work")
"""Stands for a run: pictures show each launch by itself."""


class StreamAdvance(NamedTuple):
    """What a run of launches does to one stream: end = max(host + after_host, end + after_end)."""

    stream: int
    after_host: int
    after_end: int
    launches: int
    last_ns: int


class CompiledOp(NamedTuple):
    """A compiled item: `gap` and `issue` with the profiler's cost taken out; `parts` only for a run of launches."""

    host_op: HostOp
    gap: int
    issue: int
    parts: tuple[StreamAdvance, ...] = ()


def host_time(host_op: HostOp, row_ns: float) -> tuple[int, int]:
    """(gap, issue) of an item without the profiler's cost. A driver's copy of the source is not slowed by rows."""
    fixed = host_op.kind in ("staged", "blocking", "sync", "event_sync")
    total = host_op.gap_ns if fixed else host_op.gap_ns + host_op.issue_ns
    if total <= 0 or not host_op.rows:
        return host_op.gap_ns, host_op.issue_ns
    share = max(LEAST_HOST_SHARE, (total - row_ns * host_op.rows) / total)
    return round(host_op.gap_ns * share), host_op.issue_ns if fixed else round(host_op.issue_ns * share)


@lru_cache(maxsize=SPEEDS)
def host_times(columns: OpColumns, row_ns: float) -> tuple[Integers, Integers]:
    """The same of every row, to the nanosecond; 0 for what another thread did."""
    total = columns.gap_ns + columns.issue_ns
    charged = (total > 0) & (columns.rows > 0)
    left = (total - row_ns * columns.rows) / np.maximum(total, 1)
    share = np.where(charged, np.maximum(LEAST_HOST_SHARE, left), 1.0)
    gap, issue = (
        np.where(columns.detached, 0, np.rint(times * share).astype(np.int64))
        for times in (columns.gap_ns, columns.issue_ns)
    )
    return gap, issue


# --------------------------------------------------------------------------------------------------- of OpColumns


@lru_cache(maxsize=SPEEDS)
def merged_blocks(columns: OpColumns, row_ns: float) -> tuple[tuple[CompiledOp, ...], ...]:
    """What `merged` makes of each OpBlock, without names."""
    sizes = np.diff(columns.edges)
    runs = -(-sizes // LONGEST_RUN)
    first = np.cumsum(runs) - runs
    nth = np.arange(runs.sum()) - np.repeat(first, runs)
    starts = np.repeat(columns.edges[:-1], runs) + LONGEST_RUN * nth
    if not len(starts):
        return ((),) * len(sizes)
    run_of = np.repeat(np.arange(len(starts)), np.diff(starts, append=columns.edges[-1]))
    gap, issue = host_times(columns, row_ns)
    after = np.cumsum(gap + issue)
    before = after[starts] - (gap + issue)[starts]
    last = np.append(starts[1:], len(gap)) - 1
    called = after - issue - before[run_of]
    parts = _stream_advances(columns, called, run_of, len(starts))
    times = zip(called[last].tolist(), issue[last].tolist(), parts, strict=True)
    merged_runs = [CompiledOp(_HOST_WORK, *values) for values in times]
    bounds = [*first.tolist(), len(starts)]
    return tuple(tuple(merged_runs[begin:end]) for begin, end in pairwise(bounds))


def _stream_advances(
    columns: OpColumns, called: Integers, run_of: Integers, runs: int
) -> list[tuple[StreamAdvance, ...]]:
    """Per run, one StreamAdvance for each stream that it launches to, in the order of the first launches."""
    launches = np.flatnonzero(columns.launch)
    streams = columns.stream[launches]
    if len(launches) and streams.min() != streams.max():
        launches = launches[np.lexsort((streams, run_of[launches]))]
        streams = columns.stream[launches]
    run = run_of[launches]
    begins = np.flatnonzero(np.append(True, (np.diff(run) != 0) | (np.diff(streams) != 0))[: len(run)])
    advances: list[tuple[StreamAdvance, ...]] = [()] * runs
    if not len(begins):
        return advances
    ends = np.append(begins[1:], len(launches)) - 1
    duration = columns.duration_ns[launches]
    taken = duration + columns.spacing_ns[launches]
    total = np.cumsum(taken)
    earlier = total[begins] - taken[begins]
    queued = total - np.repeat(earlier, np.diff(begins, append=len(launches)))
    alone = called[launches] + columns.latency_ns[launches] + duration
    after_host = np.maximum.reduceat(alone - queued, begins) + queued[ends]
    counts = ends - begins + 1
    in_order = np.argsort(launches[begins], kind="stable")
    values = (streams[begins], after_host, queued[ends], counts, duration[ends])
    for of_run, *numbers in zip(run[begins][in_order].tolist(), *(v[in_order].tolist() for v in values), strict=True):
        advances[of_run] += (StreamAdvance(*numbers),)
    return advances


# ----------------------------------------------------------------------------------------------------- of HostOps


def merged(host_ops: tuple[HostOp, ...], row_ns: float, longest: int = LONGEST_RUN) -> tuple[CompiledOp, ...]:
    """CompiledOps of HostOps of any kind; at most `longest` launches in a run."""
    ops: list[CompiledOp] = []
    run = _LaunchRun()
    for host_op in host_ops:
        gap, issue = (0, 0) if host_op.detached else host_time(host_op, row_ns)
        plain = is_launch_or_host_work(host_op)
        if plain:
            run.add(host_op, gap, issue)
        if run.count and (not plain or run.count >= longest):
            ops.append(run.op())
            run = _LaunchRun()
        if not plain:
            ops.append(CompiledOp(host_op, gap, issue))
    if run.count:
        ops.append(run.op())
    return tuple(ops)


class _LaunchRun:
    """Launches and host work being merged into one operation."""

    def __init__(self) -> None:
        self.count = self.advance = self.gap = 0
        self.name = self.op_name = ""
        self.parts: dict[int, tuple[int, int, int, int]] = {}

    def add(self, host_op: HostOp, gap: int, issue: int) -> None:
        self.count += 1
        self.advance += gap
        self.gap, self.name = self.advance, host_op.name
        if host_op.kind == "launch":
            after_host, after_end, count, _ = self.parts.get(host_op.stream, (_NEVER, 0, 0, 0))
            host = max(self.advance + host_op.latency_ns, after_host + host_op.spacing_ns) + host_op.duration_ns
            after_end += host_op.spacing_ns + host_op.duration_ns
            self.op_name = host_op.op or host_op.name
            self.parts[host_op.stream] = (host, after_end, count + 1, host_op.duration_ns)
        self.advance += issue

    def op(self) -> CompiledOp:
        parts = tuple(StreamAdvance(stream, *values) for stream, values in self.parts.items())
        return CompiledOp(HostOp("work", name=self.name, op=self.op_name), self.gap, self.advance - self.gap, parts)
