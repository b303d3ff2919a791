"""The owners of a step: busy time by what the GPU did, idle time by what the host did.

In: a Timeline with its breakdown and Stalls, and the recording. Out: `Owners`, which add up to the wall time.

Idle time belongs to what the host was doing, with two rules for waits. Launches that come late because the host waited
are the wait's, as far as its lead goes. Other work after a wait (a line, the DataLoader, the allocator) owns its time
itself and carries the wait's id as `group`: either of the two would have to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings import kept_steps
from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners import (
    batch_times,
    forward_nodes,
    host_lines,
    idle_segments,
    line_work,
    loop_work,
    operations,
    pieces,
    tensor_loops,
)
from tracelens.findings.owners.host_lines import RAN_IN_NONE
from tracelens.findings.owners.idle_segments import (
    ALLOCATOR,
    BACKWARD,
    COLLECTOR,
    DATALOADER,
    HOST_LINE,
    LATE,
    LAUNCH,
    LAUNCHING,
    OPTIMIZER,
    SLOW_NODE,
    WAIT,
    Host,
    Segments,
)
from tracelens.findings.owners.join import EXCESS
from tracelens.findings.owners.line_work import LineWork
from tracelens.findings.owners.loop_work import LoopWork
from tracelens.findings.owners.sums import groups, heaviest
from tracelens.messages import say
from tracelens.model import Breakdown, Location, Owner, OwnerKind, Owners, RankRecording, Stall, Timeline
from tracelens.trace import intervals, loader_iterators, recorded_rows, streams

Column = npt.NDArray[Any]

BUSY: tuple[tuple[OwnerKind, str], ...] = (
    ("gpu", "compute"),
    ("communication", "communication_exposed"),
    ("copy", "copy_exposed"),
)
LEAST_SHARE = 0.002
"""Of the step: host lines below are one owner together."""
MOST_LOCATIONS = 5
MOST_LINES = 20
"""Of launches, whose lines are told with the part that each has."""
MOSTLY = 0.5
"""An owner is said to call something, or to follow a wait, if that is so for half of its time."""
UNEXPLAINED = say("the trace does not say what the host or the GPU was doing")
STARTED_LATE = say("the GPU was asked in time and began late: after another stream, another rank, or the profiler")
PROFILERS_OWN = say("a wait of the profiler's own")
SMALL = say("several lines, each of which takes next to nothing")
OUTSIDE = say("no line of the project was under way")
WORDS: Mapping[int, OwnerKind] = {
    HOST_LINE: "host_line",
    COLLECTOR: "host_line",
    DATALOADER: "dataloader",
    ALLOCATOR: "allocator",
    OPTIMIZER: "optimizer",
    BACKWARD: "backward",
    SLOW_NODE: "backward",
    LAUNCH: "launch",
}
BY_LINE = (HOST_LINE, COLLECTOR, ALLOCATOR)
"""Each line is an owner of its own; what several lines take part in otherwise is one owner."""


@dataclass(frozen=True)
class TensorByTensor:
    """Host spans of `Optimizer.step`: its launching operations, and all of it."""

    launching: intervals.IntervalSet
    everything: intervals.IntervalSet


@dataclass(frozen=True)
class OwnedStep:
    """Who owns a step; and what its lines do on the host, the longest first (none where no line is known)."""

    owners: Owners
    line_work: tuple[LineWork, ...]
    optimizer: TensorByTensor | None = None
    """Of an optimizer that goes through its tensors one by one."""
    loop_work: tuple[LoopWork, ...] = ()
    """What the lines do that repeat within a step."""
    iterators: intervals.IntervalSet | None = None
    """Host spans in which the loop makes an iterator of its DataLoader, where it does so in each step."""


def attribute(
    timeline: Timeline, breakdown: Breakdown | None, stalls: Iterable[Stall], recording: RankRecording | None
) -> OwnedStep:
    """Who owns the time of a step, on average over the kept ones."""
    kept = kept_steps.select(timeline)
    if not timeline.coverage.judged:
        unknown = Owner("unknown", kept.step_ns, reason=timeline.coverage.reason)
        return OwnedStep(Owners(kept.step_ns, (unknown,)), ())
    host = _host(timeline, kept, recording)
    segments = idle_segments.cut(timeline, kept, host)
    loops = tensor_loops.lines(timeline, kept, host, line_work.lines_of(host.lines)[0])
    row_ns = 0.0 if breakdown is None else breakdown.row_ns
    taken = recorded_rows.profiler_spans(timeline, kept.covered, row_ns)
    idle = _Owned(timeline, tuple(stalls), host, loops).owners(segments, kept, taken)
    wall = kept.step_ns if breakdown is None else breakdown.wall_ns
    busy = [] if breakdown is None else [Owner(kind, breakdown.known[part]) for kind, part in BUSY]
    made = batch_times.measured(recording)
    idle = [replace(owner, batch=made) if owner.kind == "dataloader" else owner for owner in idle]
    ordered = tuple(sorted(added_up([*(owner for owner in busy if owner.owned_ns), *idle], wall), key=_by_time))
    owners = Owners(wall, ordered, launches_per_step=_launches(timeline, kept))
    optimizer = _optimizer(timeline, kept, host)
    if not host.lines.places and not len(host.activities.iterators.starts):
        return OwnedStep(owners, (), optimizer)
    whole = idle_segments.cut_host(timeline, kept, host)
    lines = line_work.collect(whole, kept, host, loops)
    return OwnedStep(owners, lines, optimizer, loop_work.collect(whole, host), _iterators(whole, host))


def _launches(timeline: Timeline, kept: KeptSteps) -> float | None:
    calls = timeline.tables.calls
    return kept.launches(calls) if len(calls) else None


def _optimizer(timeline: Timeline, kept: KeptSteps, host: Host) -> TensorByTensor | None:
    launching = tensor_loops.optimizer_operations(timeline, kept, host)
    spans = host.activities.optimizer
    return None if launching is None else TensorByTensor(launching, intervals.union(spans.starts, spans.ends))


def _iterators(segments: Segments, host: Host) -> intervals.IntervalSet | None:
    if not len(host.activities.iterators.starts):
        return None
    named = np.array([name == loader_iterators.NAME for name in segments.names] + [False])[segments.name]
    mine = named & (segments.kind == DATALOADER)
    return intervals.union(segments.starts[mine], segments.ends[mine])


def _host(timeline: Timeline, kept: KeptSteps, recording: RankRecording | None) -> Host:
    done = operations.host_operations(timeline)
    made = loader_iterators.find(timeline, recording)
    collections = recording.collections if recording else ()
    named = operations.activities(timeline, done, collections, made if made.each_step else None)
    lines = host_lines.collect(timeline, kept, done, recording)
    forward = forward_nodes.collect(timeline, kept, lines)
    return Host(done, named, lines, forward, has_gpu=streams.main_device(timeline.tables.ops) is not None)


@dataclass(frozen=True)
class _Columns:
    """Of each piece of idle time what makes it one owner with others: `kind` (a number of `idle_segments`), `line`,
    `name` and `reason` (numbers, -1 none); of a wait `wait`, the first of the Stalls that are called alike at its line.
    `stall`: the Stall that it comes after."""

    kind: Column
    line: Column
    name: Column
    reason: Column
    wait: Column
    path: Column
    forward: Column
    called: Column
    stall: Column
    lengths: Column
    profiler: Column
    """How much of each length is the profiler's."""


class _Owned:
    """Adds segments up by owner."""

    def __init__(self, timeline: Timeline, stalls: tuple[Stall, ...], host: Host, loops: Column) -> None:
        self._timeline = timeline
        self._stalls = stalls
        self._lines = host.lines
        self._line_of, _ = line_work.lines_of(host.lines)
        self._loops = loops
        self._reasons = (OUTSIDE, RAN_IN_NONE, host.lines.missing, STARTED_LATE, PROFILERS_OWN)

    def owners(self, segments: Segments, kept: KeptSteps, taken: intervals.IntervalSet) -> list[Owner]:
        """One Owner for each, none of which is empty; `taken`: the time that the profiler's rows took."""
        columns = self._columns(segments, intervals.covered(taken, segments.starts, segments.ends))
        group, first = groups(columns.kind, columns.line, columns.name, columns.reason, columns.wait)
        total, profiler = (
            np.bincount(group, weights=column, minlength=len(first)).astype(np.int64)
            for column in (columns.lengths, columns.profiler)
        )
        paths, forwards, called, after = (
            heaviest(group, column, columns.lengths, len(first))
            for column in (columns.path, columns.forward, columns.called, columns.stall)
        )
        out = []
        for number, row in enumerate(first.tolist()):
            owned = kept.per_step(int(total[number]))
            share = _Share(int(total[number]), owned, paths[number], forwards[number], called[number], after[number])
            owner = self._owner(columns, row, share, segments.names)
            out.append(replace(owner, profiler_ns=min(owned, kept.per_step(int(profiler[number])))))
        return out

    def _owner(self, columns: _Columns, row: int, share: _Share, names: tuple[str, ...]) -> Owner:
        owned = share.owned_ns
        group = _most(share.after, share.total)
        stall_id = self._stalls[group].id if group is not None else None
        if columns.wait[row] >= 0:
            stall = self._stalls[int(columns.wait[row])]
            kind: OwnerKind = "copy" if stall.kind == "h2d" else "allocator" if stall.kind == "alloc" else "wait"
            places = () if stall.location is None else (stall.location,)
            return Owner(kind, owned, places, stall.call or stall.api, stall_id)
        code, reason = int(columns.kind[row]), int(columns.reason[row])
        word = WORDS.get(code, "unknown")
        mostly = _most(share.called, share.total)
        callee = _short(names[columns.name[row]]) if columns.name[row] >= 0 else None
        if callee is None and word in ("host_line", "allocator") and mostly is not None:
            callee = names[mostly]
        return Owner(
            word,
            owned,
            self._locations(code, int(columns.line[row]), share),
            callee,
            stall_id,
            self._reasons[reason] if reason >= 0 else None,
            of_one_line=code == LAUNCH and int(columns.line[row]) >= 0,
            line_shares=self._line_shares(share) if code == LAUNCH and int(columns.line[row]) < 0 else (),
        )

    def _line_shares(self, share: _Share) -> tuple[tuple[Location, float], ...]:
        """The innermost lines that take part, the heaviest first."""
        lines: dict[tuple[str, int | None], tuple[Location, int]] = {}
        for path, ns in share.paths:
            if place := next(iter(self._lines.places[path]), None):
                first, known_ns = lines.get((place.path, place.line), (place, 0))
                lines[place.path, place.line] = first, known_ns + ns
        heavy = sorted(lines.values(), key=lambda line: -line[1])[:MOST_LINES]
        return tuple((place, ns / share.total) for place, ns in heavy)

    def _locations(self, kind: int, line: int, share: _Share) -> tuple[Location, ...]:
        """The innermost line of most of it with its callers; then other lines that take part."""
        places = self._lines.places
        mine = share.forwards if kind == SLOW_NODE else share.paths
        heavy = [places[path] for path, _ in mine if places[path]]
        callers = heavy[0] if heavy and (kind != LAUNCH or line >= 0) else ()
        others = [lines[0] for lines in heavy] if line < 0 else []
        belongs = [places[path][0] for path, _ in share.forwards if places[path]] if kind == BACKWARD else []
        return tuple(dict.fromkeys((*callers, *others, *belongs)))[:MOST_LOCATIONS]

    def _columns(self, segments: Segments, taken: Column) -> _Columns:
        """`taken`: the profiler's part of each segment, of which a piece has as much as it has of the segment."""
        cut = pieces.cut(self._timeline, segments)
        at = cut.segment
        kind, path, name = segments.kind[at], segments.path[at], segments.name[at]
        stall_of, key_of = self._stall_numbers()
        inside, earlier = kind == WAIT, (cut.wait >= 0) & np.isin(kind, LAUNCHING)
        waiting = inside | earlier
        wait = np.where(inside, segments.wait[at], cut.wait)
        stall = np.where(wait >= 0, stall_of[wait], -1)
        by_line, late = np.isin(kind, BY_LINE) & ~waiting, (kind == LATE) & ~waiting
        own = np.where(kind == SLOW_NODE, segments.forward[at], path)
        line = np.where((by_line | (kind == SLOW_NODE)) & ~waiting, self._line_of[own], -1)
        looping = (kind == LAUNCH) & ~waiting & np.isin(self._line_of[path], self._loops)
        line = np.where(looping, self._line_of[path], line)
        named = ~waiting & ~late & ~np.isin(kind, (HOST_LINE, COLLECTOR, LAUNCH)) & (name >= 0)
        unknown = waiting & (stall < 0)
        reason = np.where(by_line & (line < 0), np.where(path >= 0, 0, np.where(path == EXCESS, 1, 2)), -1)
        reason = np.where(late, 3, np.where(unknown, 4, reason))
        plain = ~(waiting | late)
        return _Columns(
            kind=np.where(waiting, WAIT, np.where(kind == COLLECTOR, HOST_LINE, kind)),
            line=line,
            name=np.where(named, _shared_names(segments.names)[name], -1),
            reason=reason,
            wait=np.where(waiting & (stall >= 0), key_of[stall], -1),
            path=np.where(plain, path, -1),
            forward=np.where(plain, segments.forward[at], -1),
            called=np.where(plain, name, -1),
            stall=stall,
            lengths=cut.lengths,
            profiler=cut.lengths * (taken / np.maximum(segments.lengths, 1))[at],
        )

    def _stall_numbers(self) -> tuple[Column, Column]:
        """Per wait (and at the end for none) the position of its Stall, -1 for the profiler's own; and per Stall the
        first one that is called the same at the same line."""
        stall_of = np.full(len(self._timeline.tables.waits) + 1, -1, dtype=np.int64)
        alike: dict[object, int] = {}
        key_of = np.full(len(self._stalls) + 1, -1, dtype=np.int64)
        for number, stall in enumerate(self._stalls):
            if stall.verdict != "window_edge":
                stall_of[list(stall.waits)] = number
                key = (stall.kind in ("h2d", "alloc") and stall.kind, stall.location, stall.call or stall.api)
                key_of[number] = alike.setdefault(key, number)
        return stall_of, key_of


@dataclass(frozen=True)
class _Share:
    """Of one owner over all kept steps: its time, and (number, ns) of what takes part in it, the heaviest first."""

    total: int
    owned_ns: int
    """Per step."""
    paths: list[tuple[int, int]]
    forwards: list[tuple[int, int]]
    called: list[tuple[int, int]]
    after: list[tuple[int, int]]


def _most(parts: list[tuple[int, int]], total: int) -> int | None:
    """The heaviest, where all of them together are half of the owner's time."""
    return parts[0][0] if parts and sum(ns for _, ns in parts) >= MOSTLY * total else None


def _shared_names(names: tuple[str, ...]) -> Column:
    """Per name the first position with the same short form; one more for none."""
    first: dict[str, int] = {}
    of_name: dict[str, int] = {}
    for at, name in enumerate(names):
        if name not in of_name:
            of_name[name] = first.setdefault(_short(name), at)
    return np.array([*map(of_name.__getitem__, names), -1], dtype=np.int64)


def _short(called: str) -> str:
    """`Adam.step` of `Optimizer.step#Adam.step`."""
    return called.rpartition("#")[2]


def added_up(owners: list[Owner], wall: int) -> list[Owner]:
    """Owners that add up to the step, each rounded to a nanosecond: host lines that take next to nothing are one."""
    return _filled(_merged(owners, wall), wall)


def _by_time(owner: Owner) -> int:
    return -owner.owned_ns


def _merged(owners: list[Owner], wall: int) -> list[Owner]:
    """Host lines that take next to nothing as one owner, with what rounding made of them: a list of hundreds is read by
    nobody, and a nanosecond too many of each would be too many for one."""
    small = [owner for owner in owners if owner.kind == "host_line" and owner.owned_ns < LEAST_SHARE * wall]
    if len(small) < 2:
        return owners
    small.sort(key=lambda owner: -owner.owned_ns)
    lines = tuple(dict.fromkeys(owner.locations[0] for owner in small if owner.locations))
    left = wall - sum(owner.owned_ns for owner in owners)
    total = max(sum(owner.owned_ns for owner in small) + (left if abs(left) <= len(owners) else 0), 0)
    taken = min(sum(owner.profiler_ns for owner in small), total)
    kept = [owner for owner in owners if owner not in small]
    return [*kept, Owner("host_line", total, lines[:MOST_LOCATIONS], reason=SMALL, profiler_ns=taken)]


def _filled(owners: list[Owner], wall: int) -> list[Owner]:
    """With what rounding and idle time outside of the analyzed gaps leave, as unknown."""
    left = wall - sum(owner.owned_ns for owner in owners)
    if left > len(owners):
        owners = [*owners, Owner("unknown", left, reason=UNEXPLAINED)]
    return owners
