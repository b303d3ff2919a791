"""Which lines the nodes of a backward pass belong to, in every kept step.

In: a Timeline, the host's lines. Out: `ForwardLines`: for an instant of the backward pass the node under way and the
lines that were under way in its forward operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners.host_lines import HostLines
from tracelens.findings.owners.join import UNMATCHED
from tracelens.model import Timeline
from tracelens.trace.forward_ops import BackwardNodes, backward_nodes
from tracelens.trace.tables import TraceRows

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class NodeAt:
    """Per instant: the node (-1 none), its name as a position in `ForwardLines.names`, and its lines."""

    node: Column
    name: Column
    path: Column


@dataclass(frozen=True)
class ForwardLines:
    """`paths`: numbers as in `HostLines`, per node; `UNMATCHED` where the forward operation is not known, or is not of
    the same step."""

    nodes: BackwardNodes
    paths: Column
    node_names: Column
    names: tuple[str, ...]

    def at(self, instants: Column) -> NodeAt:
        """The innermost node under way on any thread."""
        node = np.full(len(instants), -1, dtype=np.int64)
        for thread in np.unique(self.nodes.threads).tolist():
            node = np.maximum(node, self.nodes.at(np.full(len(instants), thread), instants))
        if not len(self.paths):
            return NodeAt(node, node, node)
        path = np.where(node >= 0, self.paths[node], UNMATCHED)
        return NodeAt(node, np.where(node >= 0, self.node_names[node], -1), path)


def collect(timeline: Timeline, kept: KeptSteps, lines: HostLines) -> ForwardLines:
    """The nodes of the trace."""
    rows = TraceRows(timeline.trace)
    nodes = backward_nodes(rows)
    codes = rows.column("name")[nodes.rows]
    words, named = np.unique(codes, return_inverse=True)
    names = tuple(timeline.trace.names[code].rpartition(": ")[2] for code in words)
    begun = rows.column("start_ns")[nodes.forward]
    step = np.searchsorted(kept.starts, nodes.starts, side="right") - 1
    at = np.maximum(step, 0)
    same = (nodes.forward >= 0) & (step >= 0) & (begun >= kept.starts[at]) & (nodes.starts < kept.ends[at])
    return ForwardLines(nodes, np.where(same, lines.at(begun), UNMATCHED), named, names)
