"""The device and the streams that GPU work runs on.

A stream is device and number together, because numbers mean nothing across devices.
"""

from __future__ import annotations

import numpy as np

from tracelens.model import TraceTable
from tracelens.trace import intervals
from tracelens.trace.columns import Column
from tracelens.trace.numbering import numbered


def distinct_streams(ops: TraceTable) -> tuple[list[tuple[int, int]], Column]:
    """Device and number of each stream, in order; and for each op the position of its own."""
    devices, of_device = numbered(ops["device"])
    streams, of_stream = numbered(ops["stream"])
    pairs, position = numbered(of_device * max(1, len(streams)) + of_stream)
    device, stream = np.divmod(pairs, max(1, len(streams)))
    return list(zip(devices[device].tolist(), streams[stream].tolist(), strict=True)), position


def busy_ns(ops: TraceTable, position: Column, count: int) -> Column:
    """Of each of `count` streams the time that its ops take together; `position`: the stream of each op."""
    lengths = ops["end_ns"] - ops["start_ns"]
    return np.bincount(position, weights=lengths, minlength=count).astype(np.int64)


def busiest(busy: Column, most: int) -> list[int]:
    """Positions of the largest values, in order of position; of equals the first."""
    return sorted(np.argsort(-busy, kind="stable")[:most].tolist())


def main_device(ops: TraceTable) -> int | None:
    """The device that works most; None without GPU work."""
    device = ops["device"]
    if not len(device):
        return None
    if (device == device[0]).all():
        return int(device[0])
    devices, place = np.unique(device, return_inverse=True)
    busy = np.bincount(place, weights=(ops["end_ns"] - ops["start_ns"]))
    return int(devices[busy.argmax()])


def working(ops: TraceTable) -> intervals.IntervalSet:
    """When the device that works most does anything."""
    own = ops["device"] == main_device(ops)
    return intervals.union(ops["start_ns"][own], ops["end_ns"][own])
