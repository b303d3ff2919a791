"""Which line of the user's code each wait comes from.

In: waits without a location, the trace's Python frames, and the recording's marks and stack samples. Out: the same
waits with path, line, function, the user's call and `location_source`, which says how it is known:

    mark    the attributed steps timed the user's call around the wait; carried to the other steps by order
    sample  a sampled stack during the wait; carried to waits at the same place of other steps
    clock   the line clock saw the training thread at this line when the wait began, in an attributed step; carried
            likewise
    forward the wait is in a backward pass: the line of the forward operation that it belongs to, as the line clock or
            the trace's frames know it; carried to the other steps by order
    stack   the innermost Python frame of the user's code; its line is where the function is defined
    none    unknown

A location is carried to another step only where it is certain: the n-th wait of a kind in one step is the n-th of
another step if both have equally many, or if only one line is possible and the step has no more waits than that line
was seen to make.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import Location, RankRecording, TextColumn, TraceTable
from tracelens.trace import clocked_lines, forward_lines, python_frames
from tracelens.trace.nesting import NestedSpans, operations
from tracelens.trace.tables import TraceRows
from tracelens.trace.waits import SOURCES

Column = npt.NDArray[Any]

SURE_SAMPLES = 3
"""At 1 kHz: a wait of 3 ms, of which all samples saw the same line."""


@dataclass(frozen=True)
class _Origin:
    """Where one wait comes from, and how that is known."""

    location: Location
    source: str
    call: str | None = None


_Found = dict[int, _Origin]
"""Position of a wait to its origin."""


def locate(rows: TraceRows, waits: TraceTable, recording: RankRecording | None) -> TraceTable:
    """`waits` with its location columns filled where something tells."""
    if not len(waits):
        return waits
    marked = _by_mark(rows, waits, recording)
    sampled, sure = _by_sample(rows, waits, recording)
    unseen = np.array([at for at in range(len(waits)) if at not in marked and at not in sampled], dtype=np.int64)
    forward = {**_by_clock(rows, waits, unseen, recording), **_by_forward(rows, waits, unseen, recording)}
    places = _places(rows, waits) if marked or sampled or forward else _Places({})
    carried = _carry(places, marked)
    # What was seen at a wait itself goes before what was seen at its like in another step, where they disagree: a mark
    # also knows the call.
    seen = {wait: origin for wait, origin in sure.items() if not _same_line(origin, carried.get(wait))}
    origins = {**_carry(places, forward), **forward, **_carry(places, sampled), **sampled, **carried, **seen, **marked}
    missing = np.array([at for at in range(len(waits)) if at not in origins], dtype=np.int64)
    origins = {**_by_frame(rows, waits, missing), **origins}
    return _filled(waits, origins)


def _same_line(left: _Origin, right: _Origin | None) -> bool:
    return right is not None and (left.location.path, left.location.line) == (right.location.path, right.location.line)


def _filled(waits: TraceTable, origin_of: Mapping[int, _Origin]) -> TraceTable:
    origins = [origin_of.get(at) for at in range(len(waits))]
    columns: dict[str, list[Any]] = {
        "path": [origin and origin.location.path for origin in origins],
        "line": [origin and origin.location.line for origin in origins],
        "function": [origin and origin.location.function for origin in origins],
        "user_call": [origin and origin.call for origin in origins],
    }
    objects = {key: np.array(values, dtype=object) for key, values in columns.items()}
    source = np.array([SOURCES.index(origin.source if origin else "none") for origin in origins])
    return waits.with_columns(**objects, location_source=TextColumn.coded(source, SOURCES))


# ---------------------------------------------------------------------------------------- what the recording tells


def _by_mark(rows: TraceRows, waits: TraceTable, recording: RankRecording | None) -> _Found:
    zero = rows.trace.base_unix_ns
    if recording is None or not recording.marks or zero is None:
        return {}
    by_thread = defaultdict(list)
    for mark in recording.marks:
        by_thread[mark.thread].append(mark)
    origins: _Found = {}
    for thread, marks in by_thread.items():
        starts = np.array([mark.start_unix_ns - zero for mark in marks], dtype=np.int64)
        ends = np.array([mark.end_unix_ns - zero for mark in marks], dtype=np.int64)
        mine = np.flatnonzero(waits["thread"] == thread)
        for wait, at in zip(mine, _around(NestedSpans(starts, ends), waits[mine]), strict=True):
            if at >= 0:
                origins[int(wait)] = _Origin(marks[at].location, "mark", marks[at].call)
    return origins


def _around(nest: NestedSpans, waits: TraceTable) -> Column:
    """The span around each wait; by its middle first, because the two clocks may differ by microseconds."""
    start, end = waits["start_ns"], waits["end_ns"]
    position = np.full(len(waits), -1, dtype=np.int64)
    for instant in ((start + end) // 2, start, end):
        position = np.where(position >= 0, position, nest.innermost(instant))
    return position


def _by_sample(rows: TraceRows, waits: TraceTable, recording: RankRecording | None) -> tuple[_Found, _Found]:
    """Returns the origin of each wait by stack samples, and the part of these origins that is certain.

    The origin is the line seen most often on the wait's thread while it waited. One sample at the end of a wait may
    show the next line already, so an origin is certain only where several samples agree.
    """
    zero = rows.trace.base_unix_ns
    if recording is None or not recording.samples or zero is None:
        return {}, {}
    samples = sorted(recording.samples, key=lambda sample: sample.unix_ns)
    times = np.array([sample.unix_ns - zero for sample in samples], dtype=np.int64)
    first = np.searchsorted(times, waits["start_ns"])
    last = np.searchsorted(times, waits["end_ns"], side="right")
    origins: _Found = {}
    sure: _Found = {}
    for wait, (begin, end, thread) in enumerate(zip(first, last, waits["thread"], strict=True)):
        seen = Counter(sample.location for sample in samples[begin:end] if sample.thread == thread)
        if seen:
            location, often = seen.most_common(1)[0]
            origins[wait] = _Origin(location, "sample")
            if often >= SURE_SAMPLES and len(seen) == 1:
                sure[wait] = origins[wait]
    return origins, sure


# ------------------------------------------------------------------------------------ the same place in other steps


_Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Places:
    """Per step and key (API, kind, framework operation): the waits in order."""

    steps: Mapping[int, Mapping[_Key, Sequence[int]]]


def _places(rows: TraceRows, waits: TraceTable) -> _Places:
    operation = operations(rows, waits["thread"], waits["start_ns"])
    names = [rows.trace.names[rows.column("name")[row]] if row >= 0 else "" for row in operation]
    steps: dict[int, dict[_Key, list[int]]] = defaultdict(lambda: defaultdict(list))
    columns = (waits["step"], waits["api"], waits["kind"], names)
    for at, (step, api, kind, name) in enumerate(zip(*columns, strict=True)):
        if step >= 0:
            steps[int(step)][str(api), str(kind), name].append(at)
    return _Places(steps)


def _carry(places: _Places, origins: _Found) -> _Found:
    """Origins for waits of other steps, where their place in the step leaves one possibility."""
    known: dict[_Key, dict[int, list[set[_Origin]]]] = defaultdict(dict)
    for by_key in places.steps.values():
        for key, waits in by_key.items():
            if any(wait in origins for wait in waits):
                slots = known[key].setdefault(len(waits), [set() for _ in waits])
                for slot, wait in zip(slots, waits, strict=True):
                    slot.update({origins[wait]} if wait in origins else ())
    carried: _Found = {}
    for by_key in places.steps.values():
        for key, waits in by_key.items():
            for wait, origin in zip(waits, _possible(known.get(key, {}), len(waits)), strict=True):
                if origin is not None and wait not in origins:
                    carried[wait] = origin
    return carried


def _possible(known: Mapping[int, list[set[_Origin]]], count: int) -> list[_Origin | None]:
    everything = {origin for slots in known.values() for slot in slots for origin in slot}
    gapless = all(slot for slots in known.values() for slot in slots)
    # More waits than were ever seen together come from elsewhere, too (a report every tenth batch): which ones do?
    if gapless and len({origin.location for origin in everything}) == 1 and count <= max(known):
        return [min(everything, key=lambda origin: origin.call or "")] * count
    slots = known.get(count)
    return [next(iter(slot)) if len(slot) == 1 else None for slot in slots] if slots else [None] * count


# ------------------------------------------------------------------------------------------ the trace's own frames


def _by_frame(rows: TraceRows, waits: TraceTable, missing: Column) -> _Found:
    picked = waits[missing]
    places = python_frames.innermost(rows, picked["thread"], picked["start_ns"])
    return {int(wait): _Origin(place, "stack") for wait, place in zip(missing, places, strict=True) if place}


def _by_clock(rows: TraceRows, waits: TraceTable, missing: Column, recording: RankRecording | None) -> _Found:
    """Waits of the training thread in calls that are not marked."""
    picked, log = waits[missing], recording.lines if recording else None
    threads, starts = picked["thread"], picked["start_ns"]
    lines = clocked_lines.locate(log, rows.trace.base_unix_ns, threads, starts)
    return {int(wait): _Origin(line, "clock") for wait, line in zip(missing, lines, strict=True) if line}


def _by_forward(rows: TraceRows, waits: TraceTable, missing: Column, recording: RankRecording | None) -> _Found:
    """Waits in the backward pass, where no line of the user's is under way."""
    picked = waits[missing]
    lines = forward_lines.locate(rows, picked["thread"], picked["start_ns"], recording)
    return {int(wait): _Origin(line, "forward") for wait, line in zip(missing, lines, strict=True) if line}
