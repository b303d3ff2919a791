"""Steps of a ReplayTrace made by hand: HostOps in, OpBlocks and the HostOps between them out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracelens.replay.replay_trace import HostOp, OpBlock, OpColumns, RecordedStep, in_blocks, is_launch_or_host_work

NUMBERS = ("gap_ns", "issue_ns", "rows", "stream", "duration_ns", "latency_ns", "spacing_ns", "wait", "call")


def with_op_blocks(steps: Sequence[Sequence[HostOp]]) -> tuple[RecordedStep, ...]:
    """The steps as a recording would have them: launches and host work in OpBlocks of common columns."""
    inside = [in_blocks(np.array([is_launch_or_host_work(op) for op in step], dtype=np.bool_)) for step in steps]
    rows: list[HostOp] = []
    edges = [0]
    out = []
    for step, blocked in zip(steps, inside, strict=True):
        elements: list[HostOp | int] = []
        for op, block in zip(step, blocked.tolist(), strict=True):
            if not block:
                elements.append(op)
                continue
            if isinstance(elements[-1], HostOp):
                elements.append(len(edges) - 1)
                edges.append(len(rows))
            rows.append(op)
            edges[-1] = len(rows)
        out.append(elements)
    columns = columns_of(rows, edges)
    return tuple(
        tuple(OpBlock(columns, element) if isinstance(element, int) else element for element in elements)
        for elements in out
    )


def columns_of(rows: Sequence[HostOp], edges: Sequence[int]) -> OpColumns:
    """OpColumns of launches and host work, in blocks that begin and end at `edges`."""
    words = tuple(dict.fromkeys(word for op in rows for word in (op.name, op.op)))
    return OpColumns(
        launch=np.array([op.kind == "launch" for op in rows], dtype=np.bool_),
        detached=np.array([op.detached for op in rows], dtype=np.bool_),
        **{name: np.array([getattr(op, name) for op in rows], dtype=np.int64) for name in NUMBERS},
        name=np.array([words.index(op.name) for op in rows], dtype=np.int64),
        op=np.array([words.index(op.op) for op in rows], dtype=np.int64),
        words=words,
        edges=np.array(edges, dtype=np.int64),
    )
