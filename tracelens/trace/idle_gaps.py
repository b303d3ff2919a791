"""Idle GPU time: every nanosecond inside the kept steps in which a device runs nothing, with exactly one owner.

In: GPU work, calls, waits, loader spans, steps. Out: the `gaps` table, and the idle time each wait owns. The words are
those of docs/definitions: a gap whose next operation was launched before the gap began is *launch* latency (or
*other*, when it is too long for that); otherwise the host was late, and the time belongs to what the host did:

    sync        inside a wait, and after it for as long as the queued work would have lasted that the wait drained
    dataloader  inside the DataLoader's `__next__`
    host        Python and framework between the calls
    launch      from the launch call to the start of the kernel
    other       allocation, the profiler's own work, waits of one stream for another, work of unknown origin

One gap may have several owners, one after another, and then has several rows; a gap that crosses a step is cut there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import TextColumn, TraceTable
from tracelens.trace import intervals
from tracelens.trace.intervals import IntervalSet
from tracelens.trace.tables import among, step_of
from tracelens.trace.threads import Threads

Column = npt.NDArray[Any]

CAUSES = ("sync", "dataloader", "host", "launch", "other")
SYNC, LOADER, HOST, LAUNCH, OTHER = range(len(CAUSES))

LAUNCH_NS = 30_000
"""Longest launch latency or kernel-to-kernel gap: 7-18 us were measured from launch to start on idle streams, 1-4 us
between queued kernels; HTA draws its line for consecutive kernels at 30 us as well."""
SKEW_NS = 5_000
"""Idle time that begins this long before a wait is done belongs to it: so far host and GPU clocks differ."""


@dataclass(frozen=True)
class IdleInputs:
    """Input of the idle analysis. `overhead`: intervals in which the profiler itself blocked the host."""

    calls: TraceTable
    ops: TraceTable
    waits: TraceTable
    loader: TraceTable
    steps: TraceTable
    overhead: IntervalSet
    threads: Threads


@dataclass(frozen=True)
class _Gaps:
    """Gaps of one device: where they lie, which operation ended them and when the host launched it."""

    start: Column
    end: Column
    next_op: Column
    launch: Column
    """Start of the call that launched the next operation; the gap's end where nothing follows."""
    issued: Column
    """End of that call."""
    group: Column
    """Thread of that call; the training loop's threads count as one."""
    staging: Column
    """Position of the wait that the launching call itself is (a blocking H2D copy), -1 if it is none."""
    late: Column
    """Whether the host launched the next operation only after the gap had begun."""

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class _Pieces:
    """Pieces of idle time between two changes of owner; `cause` and `wait` are filled in place."""

    start: Column
    end: Column
    gap: Column
    step: Column
    cause: Column
    wait: Column

    @property
    def length(self) -> Column:
        return self.end - self.start

    def assign(self, rows: Column, cause: int | Column, wait: int | Column = -1) -> None:
        self.cause[rows], self.wait[rows] = cause, wait


def find(inputs: IdleInputs) -> TraceTable:
    """The `gaps` table: inside kept steps, in order of start within each device."""
    parts = [_device_gaps(inputs, int(device)) for device in np.unique(inputs.ops["device"])]
    parts = parts or [{key: np.empty(0, dtype=np.int64) for key in ("device", *_KEYS)}]
    columns = parts[0]
    if len(parts) > 1:
        columns = {key: np.concatenate([part[key] for part in parts]) for key in columns}
    return TraceTable({**columns, "cause": TextColumn.coded(columns["cause"], CAUSES)})


def idle_per_wait(gaps: TraceTable, waits: int, within: IntervalSet | None = None) -> Column:
    """Idle ns that each of `waits` waits owns; of `within` only, where that is given."""
    owner, starts, ends = gaps["wait"], gaps["start_ns"], gaps["end_ns"]
    length = ends - starts if within is None else intervals.covered(within, starts, ends)
    out = np.zeros(waits, dtype=np.int64)
    np.add.at(out, owner[owner >= 0], length[owner >= 0])
    return out


_KEYS = ("start_ns", "end_ns", "next_op", "cause", "wait", "step")


def _device_gaps(inputs: IdleInputs, device: int) -> dict[str, Column]:
    positions = np.flatnonzero(inputs.ops["device"] == device)
    starts, ends = inputs.ops["start_ns"][positions], inputs.ops["end_ns"][positions]
    busy = intervals.union(starts, ends)
    low = min(int(inputs.steps["start_ns"].min()), int(starts.min()))
    high = max(int(inputs.steps["end_ns"].max()), int(ends.max()))
    gaps = _gaps(inputs, intervals.complement(busy, low, high), positions, starts)
    pieces = _pieces(inputs, gaps)
    _assign_timely(pieces, gaps)
    for group in np.unique(gaps.group[gaps.late]):
        pieces = _assign_late(inputs, gaps, pieces, busy, int(group))
    merged = _merged(pieces, gaps)
    return {"device": np.full(len(merged["start_ns"]), device, dtype=np.int64), **merged}


def _gaps(inputs: IdleInputs, idle: IntervalSet, positions: Column, starts: Column) -> _Gaps:
    follows = np.searchsorted(starts, idle[1])
    exists = follows < len(positions)
    next_op = np.where(exists, positions[np.minimum(follows, len(positions) - 1)], -1)
    call = np.where(exists, inputs.ops["call"][next_op], -1)
    start, end, thread = (
        inputs.calls[key][call] if len(inputs.calls) else call for key in ("start_ns", "end_ns", "thread")
    )
    launch, issued = (np.where(call >= 0, np.minimum(instant, idle[1]), idle[1]) for instant in (start, end))
    copies = np.flatnonzero(among(inputs.waits["kind"], "h2d"))
    staging = np.full(len(inputs.calls) + 1, -1, dtype=np.int64)
    staging[inputs.waits["call"][copies]] = copies
    known = (call >= 0) | ~exists
    group = np.where(call >= 0, _issuing_group(inputs, thread), _LOOP)
    return _Gaps(idle[0], idle[1], next_op, launch, issued, group, staging[call], known & (launch > idle[0]))


_LOOP = -(2**62)
"""Group of the training loop's threads: no thread id."""


def _issuing_group(inputs: IdleInputs, threads: Column) -> Column:
    return np.where(np.isin(threads, inputs.threads.loop), _LOOP, threads)


def _pieces(inputs: IdleInputs, gaps: _Gaps) -> _Pieces:
    """Cut the gaps wherever an owner may change, and keep what lies in a kept step."""
    tables = (inputs.steps, inputs.waits, inputs.loader)
    bounds = [table[key] for table in tables for key in ("start_ns", "end_ns")]
    own = [np.maximum(instant, gaps.start) for instant in (gaps.launch, gaps.issued, gaps.end - LAUNCH_NS)]
    edges = intervals.distinct(np.concatenate([gaps.start, gaps.end, *own, *bounds, *inputs.overhead]))
    start = edges[:-1]
    begins = np.zeros(len(start), dtype=np.int8)
    begins[np.searchsorted(start, gaps.start)] = 1  # every gap begins at one of the edges
    gap = np.cumsum(begins, dtype=np.int32) - np.int32(1)
    step = step_of(start, inputs.steps).astype(np.int32)
    chosen = (gap >= 0) & (step >= 0) & (start < gaps.end[gap] if len(gaps) else False)
    chosen &= inputs.steps["kept"][step]
    count = int(np.count_nonzero(chosen))
    cause, wait = np.full(count, OTHER, dtype=np.int8), np.full(count, -1, dtype=np.int32)
    return _Pieces(start[chosen], edges[1:][chosen], gap[chosen], step[chosen], cause, wait)


def _assign_timely(pieces: _Pieces, gaps: _Gaps) -> None:
    """Gaps whose next operation was launched in time, or whose launch is not in the trace."""
    timely = ~gaps.late[pieces.gap]
    short = (gaps.end - gaps.start)[pieces.gap] <= LAUNCH_NS
    staging = gaps.staging[pieces.gap]
    pieces.assign(timely & short, LAUNCH)
    pieces.assign(timely & (staging >= 0), SYNC, staging[timely & (staging >= 0)])


def _assign_late(inputs: IdleInputs, gaps: _Gaps, pieces: _Pieces, busy: IntervalSet, group: int) -> _Pieces:
    """Gaps that began because the host launched late: each part belongs to what the host did before that launch."""
    mine = (gaps.late & (gaps.group == group))[pieces.gap]
    edge = inputs.waits["window_edge"]
    waits = np.flatnonzero((_issuing_group(inputs, inputs.waits["thread"]) == group) & ~edge)
    alloc = among(inputs.waits["kind"], "alloc")
    before = pieces.start < gaps.launch[pieces.gap]
    inside = _inside(inputs.waits, waits, pieces.start)
    in_wait = mine & before & (inside >= 0)
    staging = gaps.staging[pieces.gap]
    copies = mine & ~before & (staging >= 0)

    pieces.assign(mine, HOST)
    pieces.assign(mine & (pieces.start >= gaps.issued[pieces.gap]), OTHER)  # launched, and yet not started
    pieces.assign(mine & ~before & (pieces.start >= gaps.end[pieces.gap] - LAUNCH_NS), LAUNCH)
    pieces.assign(mine & before & intervals.inside(inputs.overhead, pieces.start), OTHER)
    pieces.assign(in_wait, np.where(alloc[inside[in_wait]], OTHER, SYNC), inside[in_wait])
    pieces.assign(copies, SYNC, staging[copies])
    if group == _LOOP:
        loading = intervals.union(inputs.loader["start_ns"], inputs.loader["end_ns"])
        pieces.assign(mine & before & intervals.inside(loading, pieces.start), LOADER)
    real = waits[(inputs.waits["wait_ns"][waits] > 0) & ~alloc[waits]]
    return _assign_after_waits(inputs, pieces, np.flatnonzero(mine), real, busy) if len(real) else pieces


def _assign_after_waits(inputs: IdleInputs, pieces: _Pieces, mine: Column, real: Column, busy: IntervalSet) -> _Pieces:
    """Give idle time after a wait to it, for as long as the queued work that the wait drained would have lasted.

    The lead is the GPU work still to be done when a wait began: without the wait, the GPU would have had that much
    work while the host went on. Idle time uses the lead up, in order; idle time beyond it would have occurred anyway
    and stays with the host. A wait for work that was already done has no lead and owns only the time of its own call.
    """
    start = inputs.waits["start_ns"][real]
    done = start + inputs.waits["wait_ns"][real]
    lead, length = intervals.covered(busy, start, done), pieces.length[mine]
    order = np.argsort(np.concatenate((done, pieces.start[mine])), kind="stable")  # of equals, the wait comes first
    account = np.cumsum(np.concatenate((lead, -length))[order])
    overdrawn = np.minimum.accumulate(np.minimum(account, 0))
    uncovered = np.empty(len(order), dtype=np.int64)
    uncovered[order] = -np.diff(overdrawn, prepend=0)
    covered = length - uncovered[len(real) :]
    owner = np.searchsorted(done, pieces.start[mine] + SKEW_NS, side="right") - 1
    given = np.isin(pieces.cause[mine], (HOST, LAUNCH)) & (covered > 0) & (owner >= 0)
    return _split(pieces, mine[given], covered[given], real[owner[given]])


def _split(pieces: _Pieces, rows: Column, covered: Column, owner: Column) -> _Pieces:
    """The first `covered` ns of each row go to `owner`, the rest stays as it was."""
    whole = covered == pieces.length[rows]
    pieces.assign(rows[whole], SYNC, owner[whole])
    rows, covered, owner = rows[~whole], covered[~whole], owner[~whole]
    cut = pieces.start[rows] + covered
    head = {"start": pieces.start[rows], "end": cut, "gap": pieces.gap[rows], "step": pieces.step[rows]}
    head |= {"cause": np.full(len(rows), SYNC, dtype=np.int8), "wait": owner.astype(np.int32)}
    pieces.start[rows] = cut
    joined = {key: np.concatenate((getattr(pieces, key), values)) for key, values in head.items()}
    order = np.argsort(joined["start"], kind="stable")
    return _Pieces(**{key: values[order] for key, values in joined.items()})


def _inside(waits: TraceTable, chosen: Column, at: Column) -> Column:
    """The wait in which each instant lies, -1 if in none."""
    if not len(chosen):
        return np.full(len(at), -1, dtype=np.int64)
    last = np.searchsorted(waits["start_ns"][chosen], at, side="right") - 1
    candidate = chosen[np.maximum(last, 0)]
    return np.where((last >= 0) & (at < waits["end_ns"][candidate]), candidate, -1)


def _merged(pieces: _Pieces, gaps: _Gaps) -> dict[str, Column]:
    """Neighbors of one gap, step and owner as one row."""
    if not len(pieces.start):
        return {key: np.empty(0, dtype=np.int64) for key in _KEYS}
    same = pieces.start[1:] == pieces.end[:-1]
    for key in (pieces.gap, pieces.step, pieces.cause, pieces.wait):
        same &= key[1:] == key[:-1]
    first = np.concatenate(([True], ~same))
    last = np.concatenate((~same, [True]))
    return {
        "start_ns": pieces.start[first],
        "end_ns": pieces.end[last],
        "next_op": gaps.next_op[pieces.gap[first]],
        "cause": pieces.cause[first],
        "wait": pieces.wait[first].astype(np.int64),
        "step": pieces.step[first].astype(np.int64),
    }
