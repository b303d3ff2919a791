"""The streams that GPU work runs on: device and number together, because numbers mean nothing across devices."""

from __future__ import annotations

import numpy as np

from tracelens.model import TraceTable
from tracelens.trace.columns import Column


def distinct_streams(ops: TraceTable) -> tuple[list[tuple[int, int]], Column]:
    """Device and number of each stream, in order; and for each op the position of its own."""
    devices, of_device = few(ops["device"])
    streams, of_stream = few(ops["stream"])
    pairs, position = few(of_device * max(1, len(streams)) + of_stream)
    device, stream = np.divmod(pairs, max(1, len(streams)))
    return list(zip(devices[device].tolist(), streams[stream].tolist(), strict=True)), position


def busy_ns(ops: TraceTable, position: Column, count: int) -> Column:
    """Of each of `count` streams the time that its ops take together; `position`: the stream of each op."""
    lengths = ops["end_ns"] - ops["start_ns"]
    return np.bincount(position, weights=lengths, minlength=count).astype(np.int64)


def busiest(busy: Column, most: int) -> list[int]:
    """Positions of the largest values, in order of position; of equals the first."""
    return sorted(np.argsort(-busy, kind="stable")[:most].tolist())


def few(values: Column) -> tuple[Column, Column]:
    """The distinct values, in order, and the position of each among them. They are few: to look each one up in so
    short a table is much faster than to sort them all."""
    distinct = np.unique(values)
    return distinct, np.searchsorted(distinct, values).astype(np.int64)
