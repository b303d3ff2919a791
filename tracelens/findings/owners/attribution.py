"""The owners of a step: busy time by what the GPU did, idle time by what the host did.

In: a Timeline with its breakdown and Stalls, and the recording. Out: `Owners`, which add up to the wall time.

Idle time belongs to what the host was doing, with two rules for waits. Launches that come late because the host waited
are the wait's, as far as its lead goes. Other work after a wait (a line, the DataLoader, the allocator) owns its time
itself and carries the wait's id as `group`: either of the two would have to go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings import kept_steps
from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners import host_lines, idle_segments, operations
from tracelens.findings.owners.host_lines import RAN_IN_NONE, HostLines
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
    WAIT,
    Host,
    Segments,
)
from tracelens.findings.owners.join import EXCESS
from tracelens.findings.owners.lead import due_to_waits
from tracelens.model import Breakdown, Location, Owner, OwnerKind, Owners, RankRecording, Stall, Timeline
from tracelens.trace import intervals
from tracelens.trace.tables import among

Column = npt.NDArray[Any]

BUSY: tuple[tuple[OwnerKind, str], ...] = (
    ("gpu", "compute"),
    ("communication", "communication_exposed"),
    ("copy", "copy_exposed"),
)
LEAST_SHARE = 0.002
"""Of the step: host lines below are one owner together."""
MOST_LOCATIONS = 5
MOSTLY = 0.5
"""An owner is said to call something, or to follow a wait, if that is so for half of its time."""
UNEXPLAINED = "the trace does not say what the host or the GPU was doing"
STARTED_LATE = "the GPU was asked in time and began late: after another stream, another rank, or the profiler"
PROFILERS_OWN = "a wait of the profiler's own"
SMALL = "several lines, each of which takes next to nothing"
OUTSIDE = "no line of the project was under way"
WORDS: Mapping[int, OwnerKind] = {
    HOST_LINE: "host_line",
    COLLECTOR: "host_line",
    DATALOADER: "dataloader",
    ALLOCATOR: "allocator",
    OPTIMIZER: "optimizer",
    BACKWARD: "backward",
    LAUNCH: "launch",
}
BY_LINE = (HOST_LINE, COLLECTOR, ALLOCATOR)
"""Each line is an owner of its own; what several lines take part in otherwise is one owner."""


@dataclass(frozen=True)
class _Key:
    """What makes two segments one owner."""

    kind: OwnerKind
    location: Location | None = None
    callee: str | None = None
    reason: str | None = None


@dataclass
class _Sum:
    """Of one owner over all kept steps: its time, and that of each line, callee and wait that takes part."""

    total: int = 0
    lines: Counter[tuple[Location, ...]] = field(default_factory=Counter)
    callees: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)

    def add(self, length: int, lines: tuple[Location, ...], callee: str | None, group: str | None) -> None:
        self.total += length
        for counter, value in ((self.lines, lines), (self.callees, callee), (self.groups, group)):
            if value:
                counter[value] += length  # type: ignore[index]  # each counter with its own value

    def callee(self) -> str | None:
        """What is called for half of the time."""
        name, length = (self.callees or Counter({"": 0})).most_common(1)[0]
        return name if name and length >= MOSTLY * self.total else None

    def group(self) -> str | None:
        """The wait that comes before most of it, if some wait does before half of it."""
        after_waits = sum(self.groups.values())
        return self.groups.most_common(1)[0][0] if after_waits and after_waits >= MOSTLY * self.total else None


@dataclass(frozen=True)
class HostWork:
    """All that a line does on the host but launching and waiting, also while the GPU was busy. Per step, and where."""

    locations: tuple[Location, ...]
    callee: str | None
    host_ns: int
    spans: intervals.IntervalSet


@dataclass(frozen=True)
class OwnedStep:
    """Who owns a step; and what its lines do on the host, the longest first (none where no line is known)."""

    owners: Owners
    host_work: tuple[HostWork, ...]


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
    sums = _Owned(timeline, tuple(stalls), host.lines).collect(segments)
    idle = [_owner(key, total, kept) for key, total in sums.items()]
    wall = kept.step_ns if breakdown is None else breakdown.wall_ns
    busy = [] if breakdown is None else [Owner(kind, breakdown.known[part]) for kind, part in BUSY]
    owners = _merged([*(owner for owner in busy if owner.owned_ns), *idle], wall)
    ordered = tuple(sorted(_filled(owners, wall), key=lambda owner: -owner.owned_ns))
    return OwnedStep(Owners(wall, ordered), _host_work(timeline, kept, host))


def _host_work(timeline: Timeline, kept: KeptSteps, host: Host) -> tuple[HostWork, ...]:
    if not host.lines.places:
        return ()
    segments = idle_segments.cut_host(timeline, kept, host)
    by_line: dict[Location, list[int]] = defaultdict(list)
    for position in np.flatnonzero(np.isin(segments.kind, BY_LINE) & (segments.path >= 0)).tolist():
        lines = host.lines.places[segments.path[position]]
        if lines:
            by_line[lines[0]].append(position)
    _count_consequences(segments, by_line)
    work = [_work_of(segments, np.array(rows), host.lines, kept) for rows in by_line.values()]
    return tuple(sorted(work, key=lambda one: -one.host_ns))


def _count_consequences(segments: Segments, by_line: dict[Location, list[int]]) -> None:
    """A line that gives memory back to the driver in each step is why later operations have to ask for it again: their
    calls would go with it."""
    asked = [name for name, word in enumerate(segments.names) if "Malloc" in word]
    freed = [name for name, word in enumerate(segments.names) if "Free" in word]
    freeing = np.where(np.isin(segments.name, freed), segments.lengths, 0)
    frees = {line: int(freeing[rows].sum()) for line, rows in by_line.items()}
    line = max(frees, key=lambda each: frees[each], default=None)
    if line is None or not frees[line]:
        return
    allocating = np.flatnonzero((segments.kind == ALLOCATOR) & np.isin(segments.name, asked))
    by_line[line] = sorted({*by_line[line], *allocating.tolist()})


def _work_of(segments: Segments, rows: Column, lines: HostLines, kept: KeptSteps) -> HostWork:
    lengths = segments.lengths[rows]
    longest = rows[int(lengths.argmax())]
    name = int(segments.name[longest])
    return HostWork(
        locations=lines.places[segments.path[longest]],
        callee=segments.names[name] if name >= 0 else None,
        host_ns=kept.per_step(int(lengths.sum())),
        spans=intervals.union(segments.starts[rows], segments.ends[rows]),
    )


def _host(timeline: Timeline, kept: KeptSteps, recording: RankRecording | None) -> Host:
    done = operations.host_operations(timeline)
    named = operations.activities(timeline, done, recording.collections if recording else ())
    lines = host_lines.collect(timeline, kept, done, recording)
    return Host(done, named, lines, has_gpu=kept_steps.main_device(timeline) is not None)


class _Owned:
    """Adds segments up by owner."""

    def __init__(self, timeline: Timeline, stalls: tuple[Stall, ...], lines: HostLines) -> None:
        self._timeline = timeline
        self._lines = lines
        self._stall_of = {wait: stall for stall in stalls for wait in stall.waits}
        self._sums: dict[_Key, _Sum] = defaultdict(_Sum)

    def collect(self, segments: Segments) -> dict[_Key, _Sum]:
        due = self._due(segments)
        rows = zip(segments.kind.tolist(), segments.lengths.tolist(), segments.wait.tolist(), strict=True)
        rest = zip(segments.path.tolist(), segments.name.tolist(), due, strict=True)
        for (kind, length, wait), (path, name, waits) in zip(rows, rest, strict=True):
            called = segments.names[name] if name >= 0 else None
            if kind == WAIT:
                self._add_wait(wait, length)
                continue
            for earlier, part in waits:
                if kind in LAUNCHING:
                    self._add_wait(earlier, part)
                else:
                    self._add(kind, part, path, called, self._stall_of.get(earlier))
                length -= part
            self._add(kind, length, path, called, None)
        return {key: total for key, total in self._sums.items() if total.total}

    def _due(self, segments: Segments) -> list[list[tuple[int, int]]]:
        """For each segment the waits whose lead it uses up."""
        waits = self._timeline.tables.waits
        out: list[list[tuple[int, int]]] = [[] for _ in segments.starts]
        real = np.flatnonzero(
            ~waits["window_edge"].to_numpy(dtype=np.bool_)
            & (waits["wait_ns"].to_numpy() > 0)
            & ~among(waits["kind"], "alloc")
        )
        after = np.flatnonzero(segments.after_wait)
        if not len(real) or not len(after):
            return out
        start = waits["start_ns"].to_numpy()[real]
        done = start + waits["wait_ns"].to_numpy()[real]
        ops = self._timeline.tables.ops
        busy = intervals.union(ops["start_ns"], ops["end_ns"])
        lead = intervals.covered(busy, start, done)
        found = due_to_waits(done, lead, segments.starts[after], segments.lengths[after])
        for position, used in zip(after.tolist(), found, strict=True):
            out[position] = [(int(real[wait]), ns) for wait, ns in used]
        return out

    def _add_wait(self, wait: int, length: int) -> None:
        stall = self._stall_of.get(wait)
        if stall is None or stall.verdict == "window_edge":
            self._sums[_Key("unknown", reason=PROFILERS_OWN)].add(length, (), None, None)
            return
        kind: OwnerKind = "copy" if stall.kind == "h2d" else "allocator" if stall.kind == "alloc" else "wait"
        key = _Key(kind, stall.location, stall.call or stall.api)
        self._sums[key].add(length, () if stall.location is None else (stall.location,), None, stall.id)

    def _add(self, kind: int, length: int, path: int, called: str | None, stall: Stall | None) -> None:
        if length <= 0:
            return
        if kind == LATE:
            self._sums[_Key("unknown", reason=STARTED_LATE)].add(length, (), None, None)
            return
        lines = self._lines.places[path] if path >= 0 else ()
        if kind in BY_LINE:
            callee = called if kind == ALLOCATOR else None
            key = _Key(WORDS[kind], lines[0] if lines else None, callee, None if lines else self._missing(path))
        else:
            key = _Key(WORDS[kind], callee=_short(called) if kind != LAUNCH else None)
        self._sums[key].add(length, lines, called, stall.id if stall is not None else None)

    def _missing(self, path: int) -> str:
        if path >= 0:
            return OUTSIDE
        return RAN_IN_NONE if path == EXCESS else self._lines.missing


def _short(called: str | None) -> str | None:
    """`Adam.step` of `Optimizer.step#Adam.step`."""
    return called.rpartition("#")[2] if called else None


def _owner(key: _Key, total: _Sum, kept: KeptSteps) -> Owner:
    heaviest = sorted(total.lines, key=lambda lines: -total.lines[lines])
    callers = heaviest[0] if heaviest and key.kind != "launch" else ()
    others = () if key.location is not None else (lines[0] for lines in heaviest)
    locations = tuple(dict.fromkeys((*callers, *others)))
    return Owner(
        key.kind,
        kept.per_step(total.total),
        locations=locations[:MOST_LOCATIONS],
        callee=key.callee or (total.callee() if key.kind in ("host_line", "allocator") else None),
        group=total.group(),
        reason=key.reason,
    )


def _merged(owners: list[Owner], wall: int) -> list[Owner]:
    """Host lines that take next to nothing as one owner: a list of hundreds is read by nobody."""
    small = [owner for owner in owners if owner.kind == "host_line" and owner.owned_ns < LEAST_SHARE * wall]
    if len(small) < 2:
        return owners
    small.sort(key=lambda owner: -owner.owned_ns)
    lines = tuple(dict.fromkeys(owner.locations[0] for owner in small if owner.locations))
    total = sum(owner.owned_ns for owner in small)
    kept = [owner for owner in owners if owner not in small]
    return [*kept, Owner("host_line", total, lines[:MOST_LOCATIONS], reason=SMALL)]


def _filled(owners: list[Owner], wall: int) -> list[Owner]:
    """With what rounding and idle time outside of the analyzed gaps leave, as unknown."""
    left = wall - sum(owner.owned_ns for owner in owners)
    if left > len(owners):
        owners = [*owners, Owner("unknown", left, reason=UNEXPLAINED)]
    return owners
