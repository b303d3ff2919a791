"""Which forward operation each node of a backward pass belongs to.

In: the rows of a Trace. Out: `BackwardNodes`. Autograd runs a node on a thread of its own, where no line of the user's
is under way; the line that matters is that of the forward operation. Both carry the same sequence number. Of several
operations with a node's number the one that starts last is its own: an operation that makes no node (`aten::item`)
carries the number that the next one gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.trace.nesting import NestedSpans, enclosing
from tracelens.trace.tables import TraceRows
from tracelens.trace.threads import BACKWARD, MARKS

Column = npt.NDArray[Any]

_ACCUMULATE = "AccumulateGrad"


@dataclass(frozen=True)
class BackwardNodes:
    """What autograd evaluated, in order of start. `rows`: their rows in the trace; `forward`: those of the forward
    operations, -1 where the trace does not tell."""

    rows: Column
    threads: Column
    starts: Column
    ends: Column
    forward: Column

    def at(self, threads: Column, instants: Column) -> Column:
        """Position of the innermost node around each instant of a thread, -1 outside of all."""
        out = np.full(len(instants), -1, dtype=np.int64)
        for thread in np.unique(self.threads):
            mine, asked = np.flatnonzero(self.threads == thread), np.flatnonzero(threads == thread)
            position = NestedSpans(self.starts[mine], self.ends[mine]).innermost(instants[asked])
            out[asked[position >= 0]] = mine[position[position >= 0]]
        return out


def backward_nodes(rows: TraceRows) -> BackwardNodes:
    """The nodes of all backward passes."""
    nodes = rows.named(rows.in_categories(MARKS), lambda name: name.startswith(BACKWARD))
    threads, starts, ends = (rows.column(key)[nodes] for key in ("tid", "start_ns", "end_ns"))
    forward = _with_accumulations(rows, nodes, threads, _forward(rows, nodes))
    return BackwardNodes(nodes, threads, starts, ends, forward)


def _forward(rows: TraceRows, nodes: Column) -> Column:
    """The last operation before each node that has its number."""
    sequence, starts = rows.column("sequence"), rows.column("start_ns")
    operations = rows.in_categories(("cpu_op",))
    operations = operations[sequence[operations] >= 0]
    around = enclosing(rows, nodes, rows.column("tid")[operations], starts[operations])
    of_node_itself = (around >= 0) & (sequence[around] == sequence[operations])
    operations = np.setdiff1d(operations[~of_node_itself], nodes)
    out = np.full(len(nodes), -1, dtype=np.int64)
    if not len(operations) or not len(nodes):
        return out
    order = operations[np.lexsort((starts[operations], sequence[operations]))]
    key = _key(sequence[order], starts[order], starts)
    last = np.searchsorted(key, _key(sequence[nodes], starts[nodes], starts)) - 1
    candidate = order[np.maximum(last, 0)]
    same = (last >= 0) & (sequence[nodes] >= 0) & (sequence[candidate] == sequence[nodes])
    out[same] = candidate[same]
    return out


def _key(sequence: Column, starts: Column, all_starts: Column) -> Column:
    """One number that orders by sequence number, then by start."""
    width = int(all_starts.max()) - int(all_starts.min()) + 2
    if int(sequence.max()) >= (1 << 62) // width:  # no such number comes from a training
        sequence = np.minimum(sequence, (1 << 62) // width)
    return np.asarray(sequence * width + (starts - int(all_starts.min())))


def _with_accumulations(rows: TraceRows, nodes: Column, threads: Column, forward: Column) -> Column:
    """A gradient is accumulated right after the node that made it, and has no number."""
    accumulates = np.isin(nodes, rows.named(nodes, lambda name: name.endswith(_ACCUMULATE)))
    out = forward.copy()
    for thread in np.unique(threads):
        mine = np.flatnonzero(threads == thread)
        known = np.maximum.accumulate(np.where(~accumulates[mine], np.arange(len(mine)), -1))
        filled = accumulates[mine] & (known >= 0)
        out[mine[filled]] = forward[mine[known[filled]]]
    return out
