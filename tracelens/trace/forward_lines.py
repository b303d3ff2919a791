"""Lines of the user's code for what autograd's thread does: those of the forward operations.

In: rows of a Trace, instants on autograd's threads, and the recording. Out: a Location for each instant, None where
nothing tells. The line clock knows the line of a forward operation in the attributed steps; a trace with Python stacks
knows its function in every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import Location, RankRecording
from tracelens.trace import clocked_lines, python_frames
from tracelens.trace.forward_ops import backward_nodes
from tracelens.trace.tables import TraceRows

Column = npt.NDArray[Any]


def locate(
    rows: TraceRows, threads: Column, instants: Column, recording: RankRecording | None
) -> list[Location | None]:
    """The line of the forward operation whose backward pass is under way at each instant of a thread."""
    out: list[Location | None] = [None] * len(instants)
    nodes = backward_nodes(rows)
    node = nodes.at(threads, instants)
    inside = np.flatnonzero(node >= 0)
    forward = nodes.forward[node[inside]]
    known, forward = inside[forward >= 0].tolist(), forward[forward >= 0]
    if not known:
        return out
    thread, start = rows.column("tid")[forward], rows.column("start_ns")[forward]
    by_frame = python_frames.innermost(rows, thread, start)
    by_clock = clocked_lines.locate(recording.lines if recording else None, rows.trace.base_unix_ns, thread, start)
    for position, clocked, framed in zip(known, by_clock, by_frame, strict=True):
        out[position] = clocked or framed
    return out
