"""The streams that GPU work runs on: device and number together, because numbers mean nothing across devices."""

from __future__ import annotations

import numpy as np

from tracelens.model import TraceTable
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
