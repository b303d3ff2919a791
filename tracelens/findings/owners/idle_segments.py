"""Idle time cut into segments in which the host does one thing, and what that thing is.

In: idle gaps with their cause, the host's lines, operations and activities. Out: `Segments`, arrays of equal length.
On a run without a GPU the whole step is one gap of the host's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners.forward_nodes import ForwardLines
from tracelens.findings.owners.host_lines import HostLines
from tracelens.findings.owners.operations import Activities, HostOperations, NamedSpans
from tracelens.model import Timeline
from tracelens.trace import intervals, streams
from tracelens.trace.idle_gaps import CAUSES

Column = npt.NDArray[Any]

LONG_NS = 100_000
"""Issuing a kernel from Python costs 5-20 µs, a module with its hooks some tens: a longer stretch between two
operations, or an operation as long that starts nothing on the GPU, is no launch."""
LONG_LAUNCH_NS = 1_000_000
"""An operation that takes longer than this for each thing that it starts does something else: it loads a library, or
tries algorithms. Up to here it is a slow host that launches, at worst one that also records shapes and stacks."""

WAIT, HOST_LINE, COLLECTOR, DATALOADER, ALLOCATOR, OPTIMIZER, BACKWARD, LAUNCH, LATE, SLOW_NODE = range(10)
"""What the host does. COLLECTOR: Python's garbage collector runs; LATE: the GPU had been asked in time; SLOW_NODE: a
node of the backward pass that does not launch but computes."""
_SYNC, _LOADER, _HOST, _LAUNCH, _OTHER = map(CAUSES.index, ("sync", "dataloader", "host", "launch", "other"))
_EVER = 1 << 61
LAUNCHING = (OPTIMIZER, BACKWARD, LAUNCH)
"""What has to be issued anyway: late after a wait, it is late because of it."""


@dataclass(frozen=True)
class Segments:
    """`kind`: one of the numbers above. `wait`: the wait inside which the host is, -1. `after_wait`: idle time that may
    be a wait's doing. `name`: a position in `names`, -1. `path`: as in `HostLines`; `forward`: the same of the forward
    operation, in a backward pass."""

    starts: Column
    ends: Column
    kind: Column
    wait: Column
    after_wait: Column
    path: Column
    forward: Column
    name: Column
    names: tuple[str, ...]

    @property
    def lengths(self) -> Column:
        return self.ends - self.starts

    @property
    def belongs(self) -> Column:
        """The path of each: of a node of the backward pass its forward operation's; -1 in the optimizer and the
        DataLoader, which are no line's."""
        in_node = (self.forward >= 0) | np.isin(self.kind, (BACKWARD, SLOW_NODE))
        path = np.where(in_node, self.forward, self.path)
        return np.where(np.isin(self.kind, (OPTIMIZER, DATALOADER)), -1, path)


@dataclass(frozen=True)
class Host:
    """What is known of the host in the kept steps."""

    operations: HostOperations
    activities: Activities
    lines: HostLines
    forward: ForwardLines
    has_gpu: bool


def cut(timeline: Timeline, kept: KeptSteps, host: Host) -> Segments:
    """The idle time of the device that works most, in the kept steps; without a GPU all of the host's time."""
    device = streams.main_device(timeline.tables.ops)
    return cut_host(timeline, kept, host) if device is None else _cut(timeline, _gaps(timeline, kept, device), host)


def cut_host(timeline: Timeline, kept: KeptSteps, host: Host) -> Segments:
    """All of the host's time in the kept steps, whatever the GPU did meanwhile."""
    return _cut(timeline, _IdleGaps(kept.starts, kept.ends, np.full(len(kept.starts), _HOST)), host)


def _cut(timeline: Timeline, gaps: _IdleGaps, host: Host) -> Segments:
    operations = host.operations
    edges = (host.lines.spans.starts, host.activities.edges, operations.starts, operations.ends)
    waits = timeline.tables.waits
    nodes = host.forward.nodes
    inner = np.concatenate((*edges, nodes.starts, nodes.ends, waits["start_ns"], waits["end_ns"]))
    bounds = intervals.distinct(np.concatenate((gaps.starts, gaps.ends, inner)))
    starts, ends = bounds[:-1], bounds[1:]
    gap = np.searchsorted(gaps.starts, starts, side="right") - 1
    chosen = (gap >= 0) & (starts < gaps.ends[gap]) if len(gaps.starts) else np.zeros(len(starts), dtype=np.bool_)
    starts, ends, gap = starts[chosen], ends[chosen], gap[chosen]
    cause = gaps.cause[gap]
    kind, name, names = _kinds(starts, cause, host)
    path = host.lines.at(starts)
    leading = (
        (BACKWARD, host.activities.backward),
        (OPTIMIZER, host.activities.optimizer),
        (DATALOADER, host.activities.iterators),
    )
    for number, spans in leading:
        span = np.where(np.isin(kind, (HOST_LINE, LAUNCH)) & (cause != _LAUNCH), _beside(starts, path, spans, host), -1)
        kind = np.where(span >= 0, number, kind)
        name = np.where(span >= 0, len(names) + span, name)
        names += spans.names
    forward = host.forward.at(starts)
    slow = (kind == BACKWARD) & (forward.path >= 0) & _operations(starts, host)[1] & host.has_gpu
    kind = np.where(slow, SLOW_NODE, kind)
    name = np.where(slow, len(names) + forward.name, name)
    names += host.forward.names
    wait = _inside_wait(timeline, starts, cause)
    kind = np.where(wait >= 0, np.where(kind == ALLOCATOR, ALLOCATOR, WAIT), kind)
    after = (wait < 0) & np.isin(cause, (_SYNC, _HOST, _LOADER))
    return Segments(starts, ends, kind, wait, after, path, forward.path, name, names)


@dataclass(frozen=True)
class _IdleGaps:
    starts: Column
    ends: Column
    cause: Column


def _gaps(timeline: Timeline, kept: KeptSteps, device: int) -> _IdleGaps:
    table = timeline.tables.gaps
    mine = (table["device"] == device) & kept.holds(table["step"])
    rows = table[mine]
    rows = rows[np.argsort(rows["start_ns"], kind="stable")]
    return _IdleGaps(rows["start_ns"], rows["end_ns"], rows["cause"].codes)


def _inside_wait(timeline: Timeline, starts: Column, cause: Column) -> Column:
    """The wait of the loop's in which each segment lies, -1 outside."""
    waits, threads = timeline.tables.waits, (timeline.main_thread, *timeline.autograd_threads)
    mine = np.flatnonzero(np.isin(waits["thread"], [thread for thread in threads if thread is not None]))
    if not len(mine):
        return np.full(len(starts), -1, dtype=np.int64)
    last = np.searchsorted(waits["start_ns"][mine], starts, side="right") - 1
    wait = mine[np.maximum(last, 0)]
    return np.where((last >= 0) & (starts < waits["end_ns"][wait]) & (cause != _LAUNCH), wait, -1)


def _kinds(starts: Column, cause: Column, host: Host) -> tuple[Column, Column, tuple[str, ...]]:
    """What the host does in each segment, and the name of it. Later rules go before earlier ones."""
    operation, long = _operations(starts, host)
    kind = np.where(long, HOST_LINE, LAUNCH)
    names = list(host.operations.names)
    name = np.where(long, operation, -1)
    named = (
        (BACKWARD, host.activities.backward),
        (OPTIMIZER, host.activities.optimizer),
        (DATALOADER, host.activities.dataloader),
        (COLLECTOR, host.activities.collector),
        (ALLOCATOR, host.activities.allocator),
    )
    for number, spans in named:
        at = spans.at(starts)
        kind = np.where(at >= 0, number, kind)
        name = np.where(at >= 0, len(names) + at, name)
        names += spans.names
    kind = np.where(cause == _LAUNCH, LAUNCH, kind)
    kind = np.where((cause == _OTHER) & (kind != ALLOCATOR), LATE, kind)
    return kind, name, tuple(names)


def _beside(starts: Column, path: Column, spans: NamedSpans, host: Host) -> Column:
    """The span to which a segment leads, or from which it comes, without another operation between and at the same
    line: the way into `loss.backward()` and out of it is a part of the call. -1 for none."""
    out = np.full(len(starts), -1, dtype=np.int64)
    if not len(spans.starts):
        return out
    at_span = host.lines.at(spans.starts)
    begun = np.searchsorted(host.operations.starts, starts, side="right")
    following = np.searchsorted(spans.starts, starts, side="right")
    for position, instants in ((following - 1, spans.ends), (following, spans.starts)):
        known = (position >= 0) & (position < len(instants))
        span = np.clip(position, 0, len(instants) - 1)
        between = np.searchsorted(host.operations.starts, instants[span], side="left")
        same = known & (at_span[span] == path) & (path >= 0)
        out = np.where(same & (begun == between), span, out)
    return out


def _operations(starts: Column, host: Host) -> tuple[Column, Column]:
    """The operation in which each segment lies (-1 between two), and whether that is too long to be a launch."""
    operations = host.operations
    if not len(operations.starts):
        return np.full(len(starts), -1, dtype=np.int64), np.ones(len(starts), dtype=np.bool_)
    last = np.searchsorted(operations.starts, starts, side="right") - 1
    at = np.maximum(last, 0)
    inside = (last >= 0) & (starts < operations.ends[at])
    length = np.where(inside, (operations.ends - operations.starts)[at], _apart(operations, last))
    launches = np.where(inside, operations.launches[at], 0)
    allowed = np.where(launches > 0, LONG_LAUNCH_NS * launches, LONG_NS)
    return np.where(inside, at, -1), (length > allowed) | (not host.has_gpu)


def _apart(operations: HostOperations, last: Column) -> Column:
    """From the end of the operation `last` to the start of the next one; without end before the first and after it."""
    starts = np.concatenate((operations.starts, [_EVER]))
    ends = np.concatenate((operations.ends, [-_EVER]))  # at -1, before the first
    return np.asarray(starts[last + 1] - ends[last])
