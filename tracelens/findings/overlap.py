"""Host-to-device copies against computation: hidden, exposed, blocking.

In: a Timeline. Out: an Overlap per kept step, or None where no GPU worked. hidden + exposed = total. Blocking is the
part of the exposed time during which the next kernel was waiting: it had been issued before the copy ended, or it could
not be issued because the copy call itself blocked the host. Exposed is an upper bound of what hiding the copies can
win; blocking is what it does win.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracelens.findings import kept_steps
from tracelens.model import Overlap, Timeline, TraceTable
from tracelens.trace import intervals, streams
from tracelens.trace.tables import among

RowPositions = npt.NDArray[np.int64]


def measure(timeline: Timeline) -> Overlap | None:
    """Copies and streams of the kept steps on the device that works most."""
    device = streams.main_device(timeline.tables.ops)
    if device is None or not timeline.coverage.judged:
        return None
    kept = kept_steps.select(timeline)
    ops = timeline.tables.ops
    own = (ops["device"] == device) & kept.holds(ops["step"])
    copies = np.flatnonzero(own & among(ops["kind"], "copy") & among(ops["direction"], "h2d"))
    compute = np.flatnonzero(own & among(ops["kind"], "kernel", "collective"))
    total, work = kept_steps.spans(ops, copies), kept_steps.spans(ops, compute)
    exposed = intervals.subtract(total, work)
    blocking = intervals.intersect(exposed, kept_steps.spans(ops, copies[_blocks(ops, copies, compute, timeline)]))
    exposed_ns, total_ns = intervals.total(exposed), intervals.total(total)
    return Overlap(
        h2d_ns=round(total_ns / kept.count),
        h2d_hidden_ns=round(total_ns / kept.count) - round(exposed_ns / kept.count),
        h2d_exposed_ns=round(exposed_ns / kept.count),
        h2d_blocking_ns=round(intervals.total(blocking) / kept.count),
        streams_used=len(np.unique(ops["stream"][own])),
        concurrent_share=_concurrent_share(ops, np.flatnonzero(own)),
    )


def _blocks(ops: TraceTable, copies: RowPositions, compute: RowPositions, timeline: Timeline) -> kept_steps.Mask:
    """For each copy: was the next kernel on the device waiting for it?"""
    if not len(compute) or not len(copies):
        return np.zeros(len(copies), dtype=np.bool_)
    launching, end = ops["call"], ops["end_ns"][copies]
    index = np.searchsorted(ops["start_ns"][compute], end, side="left")
    present = index < len(compute)
    call = launching[compute[np.minimum(index, len(compute) - 1)]]
    issued = np.full(len(copies), np.iinfo(np.int64).max)
    known = present & (call >= 0)
    issued[known] = timeline.tables.calls["start_ns"][call[known]]
    waits = timeline.tables.waits  # where a copy that waits is in it, whatever it is that tells (memory, name, or time)
    held = np.isin(launching[copies], waits["call"][among(waits["kind"], "h2d")]) & present
    return (issued < end) | held


def _concurrent_share(ops: TraceTable, chosen: RowPositions) -> float:
    """Share of busy time in which two or more streams run."""
    stream = ops["stream"][chosen]
    by_stream = np.argsort(stream, kind="stable")
    parts = np.split(chosen[by_stream], np.flatnonzero(np.diff(stream[by_stream])) + 1)
    streams = [kept_steps.spans(ops, rows) for rows in parts]
    starts, ends = (np.concatenate([stream[side] for stream in streams]) for side in (0, 1))
    busy = intervals.total(intervals.union(starts, ends))
    if busy == 0:
        return 0.0
    edges = np.concatenate((starts, ends))
    order = np.argsort(edges, kind="stable")
    depth = np.cumsum(np.concatenate((np.ones(len(starts)), -np.ones(len(ends))))[order])
    lengths = np.diff(edges[order], append=edges[order][-1])
    return float(lengths[depth >= 2].sum()) / busy
