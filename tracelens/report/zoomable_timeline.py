"""Every event of the recording, packed small enough for a page, for the timeline that one can zoom.

In: a Diagnosis. Out: a document of plain values: lanes, names, steps, waits, and all numbers of all lanes as one
base64 block. A number is a LEB128 varint; starts are differences, columns follow one another, so that gzip finds what
repeats: 200,000 events take about 1 MB. The reader is `assets/timeline.js`.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.messages import say, shown
from tracelens.model import Diagnosis, TextColumn, Timeline, TraceTable
from tracelens.report import formatting, wording
from tracelens.report.step_picture import LABELS, stream_name, typical_view
from tracelens.trace import streams
from tracelens.trace.columns import rows_among
from tracelens.trace.tables import among

MOST_EVENTS = 250_000
"""Events in the page: 1.3 MB packed. Above it the shortest are left out, and the page says so."""
MOST_STREAMS = 16
"""Streams with a lane, the busiest first; jobs with NCCL have dozens that hold one kernel each."""
LONGEST_NAME = 96
"""Characters of an event's name; templates of CUDA kernels have thousands."""
KINDS = (
    "operator",
    "call",
    "wait",
    "loader",
    "kernel",
    "copy",
    "memset",
    "collective",
    *(k for k in LABELS if k[:5] == "idle_"),
)
Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class EventLane:
    """Events of one lane, ordered by start. `link` is 1 + the position of a wait (of its own, or the one that owns an
    idle gap), 0 none."""

    name: str
    part: str
    events: TraceTable
    """start_ns, end_ns, name, kind, link."""


def document(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """What the script draws; None where there is nothing to draw."""
    timeline = diagnosis.timeline
    lanes = [lane for lane in _lanes(timeline) if len(lane.events)]
    view = typical_view(timeline.tables.steps)
    if not lanes or view is None:
        return None
    lanes, left_out, shorter = _fitting(lanes, MOST_EVENTS)
    origin = min(int(lane.events["start_ns"][0]) for lane in lanes)
    end = max(int(lane.events["end_ns"].max()) for lane in lanes)
    names: dict[str, int] = {}
    packed = b"".join(_packed(lane.events, names, origin) for lane in lanes)
    steps = timeline.tables.steps
    return {
        "lanes": [_lane(lane) for lane in lanes],
        "names": [formatting.shorten(shown(name), LONGEST_NAME) for name in names],
        "kinds": list(KINDS),
        "steps": [
            [int(n), int(a) - origin, int(b) - origin] for n, a, b in _rows(steps, "number", "start_ns", "end_ns")
        ],
        "view": [view.start_ns - origin, view.end_ns - origin],
        "end": end - origin,
        "waits": _waits(diagnosis),
        "left_out": left_out,
        "shorter_ns": shorter,
        "data": base64.b64encode(gzip.compress(packed, 9, mtime=0)).decode(),
    }


def left_out(document: dict[str, Any] | None) -> str | None:
    """The sentence about events that the page does not hold."""
    if not document or not document["left_out"]:
        return None
    shorter = formatting.milliseconds(document["shorter_ns"])
    return say(
        "{count:,} events shorter than {shorter} are left out of this timeline, so that the page opens "
        "quickly; every number on the page is computed from all of them.",
        count=document["left_out"],
        shorter=shorter,
    )


def _lane(lane: EventLane) -> dict[str, Any]:
    stalls = int(np.count_nonzero(among(lane.events["kind"], "wait")))
    return {"name": lane.name, "part": lane.part, "count": len(lane.events), "stalls": stalls}


def _waits(diagnosis: Diagnosis) -> list[list[Any]]:
    """Per wait: where and what it is, how long the host was blocked, idle GPU time that it owns, its row's anchor."""
    rows: dict[int, tuple[str, str]] = {}
    for index, stall in enumerate(wording.ranked_stalls(diagnosis), start=1):
        rows |= dict.fromkeys(
            stall.waits,
            (
                shown(say("{call} at {where}", call=wording.stall_call(stall), where=wording.stall_place(stall))),
                f"stall-{index}",
            ),
        )
    table = diagnosis.timeline.tables.waits
    out = []
    for position, (wait, idle) in enumerate(_rows(table, "wait_ns", "gpu_idle_ns")):
        text, anchor = rows.get(position) or (formatting.clean(table["api"][position]), "")
        out.append([formatting.shorten(text, LONGEST_NAME), wait, idle, anchor])
    return out


# ---------------------------------------------------------------------------------------------------- the lanes


def _lanes(timeline: Timeline) -> Iterator[EventLane]:
    tables = timeline.tables
    operators = _operators(timeline)
    threads = [(say("Python thread"), timeline.main_thread)]
    threads += [
        (say("Autograd thread"), thread) for thread in timeline.autograd_threads if thread != timeline.main_thread
    ]
    for name, thread in threads:
        if thread is not None:
            yield EventLane(name, say("operators"), operators[operators["thread"] == thread])
        yield EventLane(name, say("CUDA calls and waits"), _calls(timeline, thread))
    yield EventLane("DataLoader", "", _events(tables.loader, "DataLoader", "loader"))
    ops = tables.ops
    known, position = streams.distinct_streams(ops)
    busiest = streams.busiest(streams.busy_ns(ops, position, len(known)), MOST_STREAMS)
    several = len({known[number][0] for number in busiest}) > 1
    for number in busiest:
        mine = ops[position == number]
        yield EventLane(stream_name(*known[number], several), "", _events(mine, mine["name"], mine["kind"]))
    copies = ops[among(ops["kind"], "copy")]
    yield EventLane(say("Copies"), say("all streams"), _events(copies, copies["name"], "copy"))
    for device in np.unique(tables.gaps["device"]).tolist():
        gaps = tables.gaps[tables.gaps["device"] == device]
        kinds = tuple(f"idle_{cause}" for cause in gaps["cause"].words)
        titles = tuple(LABELS[kind][1] if kind in LABELS else kind for kind in kinds)
        codes = gaps["cause"].codes
        idle = _events(gaps, TextColumn(codes, titles), TextColumn(codes, kinds), gaps["wait"] + 1)
        name = say("GPU {device} idle", device=device) if several else say("GPU idle")
        yield EventLane(name, say("by cause"), idle)


def _calls(timeline: Timeline, thread: int | None) -> TraceTable:
    """CUDA calls of a thread; those that waited are waits, with the user's call for a name."""
    calls, waits = timeline.tables.calls, timeline.tables.waits
    waited = np.zeros(len(calls), dtype=np.int64)
    waited[waits["call"][::-1]] = np.arange(len(waits), 0, -1)
    mine = calls.with_columns(waited=waited)
    mine = mine if thread is None else mine[calls["thread"] == thread]
    kinds = TextColumn.coded(mine["waited"] > 0, ("call", "wait"))
    return _events(mine, mine["name"], kinds, mine["waited"])


def _operators(timeline: Timeline) -> TraceTable:
    """The outermost operators of each thread: what Python called, not what that called in turn."""
    trace = timeline.trace
    columns = trace.columns
    if not {"tid", "category"} <= set(columns):
        return _events(TraceTable(dict.fromkeys(("start_ns", "end_ns", "thread"), _NOTHING)), "", "")
    rows = np.flatnonzero(rows_among(columns["category"], trace.categories, ("cpu_op",)))
    order = rows[np.lexsort((-columns["end_ns"][rows], columns["start_ns"][rows], columns["tid"][rows]))]
    thread, start, end = (columns[key][order].astype(np.int64) for key in ("tid", "start_ns", "end_ns"))
    outermost = np.zeros(len(order), dtype=np.bool_)
    for own in np.split(np.arange(len(order)), np.flatnonzero(np.diff(thread)) + 1):
        reached = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end[own]))[:-1]
        outermost[own] = start[own] >= reached
    table = TraceTable({"start_ns": start, "end_ns": end, "thread": thread})[outermost]
    return _events(table, TextColumn(columns["name"][order][outermost], trace.names), "operator")


_NOTHING = np.empty(0, dtype=np.int64)


def _events(
    table: TraceTable, name: TextColumn | str, kind: TextColumn | str, link: Numbers | None = None
) -> TraceTable:
    """In order of start; a text is that of all rows."""
    one = np.zeros(len(table), dtype=np.int8)
    name, kind = (TextColumn(one, (text,)) if isinstance(text, str) else text for text in (name, kind))
    order = np.lexsort((table["end_ns"], table["start_ns"]))
    return table.with_columns(name=name, kind=kind, link=one if link is None else link)[order]


def _rows(table: TraceTable, *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[column].tolist() for column in columns), strict=True)


# ---------------------------------------------------------------------------------------------------- packing


def _fitting(lanes: Sequence[EventLane], most: int) -> tuple[list[EventLane], int, int]:
    """The lanes with the shortest events gone, where there are too many: never a wait, never anything else first.
    Also how many are gone and the length below which."""
    total = sum(len(lane.events) for lane in lanes)
    if total <= most:
        return list(lanes), 0, 0
    lengths = np.concatenate([_length(lane.events) for lane in lanes])
    shortest = int(np.partition(lengths, total - most)[total - most])
    kept = [EventLane(lane.name, lane.part, lane.events[_length(lane.events) > shortest]) for lane in lanes]
    kept = [lane for lane in kept if len(lane.events)]
    return kept, total - sum(len(lane.events) for lane in kept), shortest + 1


def _length(events: TraceTable) -> Numbers:
    length = events["end_ns"] - events["start_ns"]
    return np.where(among(events["kind"], "wait"), np.iinfo("int64").max - 1, length)


def _packed(events: TraceTable, names: dict[str, int], origin: int) -> bytes:
    """Starts as differences, lengths, names, kinds, links; `names` grows."""
    name, kind, starts = events["name"], events["kind"], events["start_ns"]
    used, first = np.unique(name.codes, return_index=True)
    numbers = np.zeros(len(name.words), dtype=np.int64)
    for code in used[np.argsort(first)].tolist():
        numbers[code] = names.setdefault(name.words[code], len(names))
    kinds = np.array([KINDS.index(word) if word in KINDS else KINDS.index("call") for word in kind.words])
    columns = (
        np.diff(starts, prepend=origin),
        np.maximum(events["end_ns"] - starts, 0),
        numbers[name.codes],
        kinds[kind.codes],
        events["link"],
    )
    return b"".join(varints(np.asarray(column, dtype=np.int64)) for column in columns)


def varints(values: Numbers) -> bytes:
    """LEB128: seven bits a byte, the lowest first, the top bit set on all but the last."""
    rest = values.astype(np.uint64)
    size = np.ones(len(rest), dtype=np.int64)
    for bits in range(7, 64, 7):
        size += rest >= np.uint64(1) << np.uint64(bits)
    offsets = np.cumsum(size) - size
    out = np.zeros(int(size.sum()), dtype=np.uint8)
    for place in range(int(size.max(initial=0))):
        has = size > place
        low = (rest[has] >> np.uint64(7 * place)) & np.uint64(0x7F)
        out[offsets[has] + place] = low | np.where(size[has] > place + 1, 0x80, 0).astype(np.uint64)
    return out.tobytes()
