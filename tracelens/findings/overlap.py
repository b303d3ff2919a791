"""Host-to-device copies against computation: hidden, exposed, blocking.

In: a Timeline. Out: an Overlap per kept step, or None where no GPU worked. hidden + exposed = total. Blocking is the
part of the exposed time for which the next kernel was waiting: it had been issued before the copy ended, or it could
not be issued because the copy call itself held the host. Exposed is an upper bound, blocking is
what can be won.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tracelens.findings import window
from tracelens.model import Overlap, Timeline
from tracelens.trace import intervals


def of(timeline: Timeline) -> Overlap | None:
    """Copies and streams of the kept steps on the device that works most."""
    device = window.main_device(timeline)
    if device is None:
        return None
    kept = window.of(timeline)
    ops = timeline.ops()
    ops = ops[(ops["device"] == device) & kept.holds(ops["step"])]
    copies = ops[(ops["kind"] == "copy") & (ops["direction"] == "h2d")]
    compute = ops[ops["kind"].isin(("kernel", "collective"))]
    total, work = window.spans(copies), window.spans(compute)
    exposed = intervals.subtract(total, work)
    blocking = intervals.intersect(exposed, window.spans(copies[_blocks(copies, compute, timeline)]))
    exposed_ns, total_ns = intervals.total(exposed), intervals.total(total)
    return Overlap(
        h2d_ns=round(total_ns / kept.count),
        h2d_hidden_ns=round(total_ns / kept.count) - round(exposed_ns / kept.count),
        h2d_exposed_ns=round(exposed_ns / kept.count),
        h2d_blocking_ns=round(intervals.total(blocking) / kept.count),
        streams_used=int(ops["stream"].nunique()),
        concurrent_share=_concurrent_share(ops),
    )


def _blocks(copies: pd.DataFrame, compute: pd.DataFrame, timeline: Timeline) -> pd.Series[bool]:
    """For each copy: was the next kernel on the device waiting for it?"""
    if compute.empty or copies.empty:
        return pd.Series(False, index=copies.index)
    following = compute.sort_values("start_ns")
    index = np.searchsorted(following["start_ns"].to_numpy(), copies["end_ns"].to_numpy(), side="left")
    present = index < len(following)
    call = following["call"].to_numpy()[np.minimum(index, len(following) - 1)]
    issued = np.full(len(copies), np.iinfo(np.int64).max)
    known = present & (call >= 0)
    issued[known] = timeline.calls()["start_ns"].to_numpy()[call[known]]
    waiting = issued < copies["end_ns"].to_numpy()
    waits = timeline.syncs()  # where a copy that waits is in it, whatever it is that tells (memory, name, or time)
    held = copies["call"].isin(waits.loc[waits["kind"] == "h2d", "call"]).to_numpy() & present
    return pd.Series(waiting | held, index=copies.index)


def _concurrent_share(ops: pd.DataFrame) -> float:
    """Share of busy time in which two or more streams run."""
    streams = [window.spans(rows) for _, rows in ops.groupby("stream")]
    starts = np.concatenate([stream[0] for stream in streams]) if streams else np.empty(0, dtype=np.int64)
    ends = np.concatenate([stream[1] for stream in streams]) if streams else np.empty(0, dtype=np.int64)
    busy = intervals.total(intervals.union(starts, ends))
    if busy == 0:
        return 0.0
    edges = np.concatenate((starts, ends))
    order = np.argsort(edges, kind="stable")
    depth = np.cumsum(np.concatenate((np.ones(len(starts)), -np.ones(len(ends))))[order])
    lengths = np.diff(edges[order], append=edges[order][-1])
    return float(lengths[depth >= 2].sum()) / busy
