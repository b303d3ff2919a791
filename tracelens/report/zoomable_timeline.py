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
import pandas as pd

from tracelens.messages import say, shown
from tracelens.model import Diagnosis, Timeline
from tracelens.report import formatting, wording
from tracelens.report.step_picture import LABELS, stream_name, typical_view

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
    frame: pd.DataFrame
    """start_ns, end_ns, name (text), kind (text), link."""


def document(diagnosis: Diagnosis) -> dict[str, Any] | None:
    """What the script draws; None where there is nothing to draw."""
    timeline = diagnosis.timeline
    lanes = [lane for lane in _lanes(timeline) if len(lane.frame)]
    view = typical_view(timeline.tables.steps)
    if not lanes or view is None:
        return None
    lanes, left_out, shorter = _fitting(lanes, MOST_EVENTS)
    origin = min(int(lane.frame["start_ns"].iloc[0]) for lane in lanes)
    end = max(int(lane.frame["end_ns"].max()) for lane in lanes)
    names: dict[str, int] = {}
    packed = b"".join(_packed(lane.frame, names, origin) for lane in lanes)
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
    stalls = int((lane.frame["kind"] == "wait").sum())
    return {"name": lane.name, "part": lane.part, "count": len(lane.frame), "stalls": stalls}


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
    for position, (api, wait, idle) in enumerate(_rows(table, "api", "wait_ns", "gpu_idle_ns")):
        text, anchor = rows.get(position, (formatting.clean(str(api)), ""))
        known = idle is not None and not pd.isna(idle)
        out.append([formatting.shorten(text, LONGEST_NAME), int(wait), int(idle) if known else None, anchor])
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
    yield EventLane("DataLoader", "", _frame(tables.loader, "DataLoader", "loader"))
    ops = tables.ops
    length = (ops["end_ns"] - ops["start_ns"]).groupby([ops["device"], ops["stream"]], observed=True).sum()
    busiest = sorted(length.sort_values(ascending=False).index[:MOST_STREAMS])
    several = len({device for device, _ in busiest}) > 1
    for device, stream in busiest:
        mine = ops[(ops["device"] == device) & (ops["stream"] == stream)]
        yield EventLane(stream_name(device, stream, several), "", _frame(mine, mine["name"], mine["kind"]))
    copies = ops[ops["kind"] == "copy"]
    yield EventLane(say("Copies"), say("all streams"), _frame(copies, copies["name"], "copy"))
    for device, gaps in tables.gaps.groupby("device", observed=True):
        causes = ["idle_" + str(cause) for cause in gaps["cause"].tolist()]
        titles = [LABELS[cause][1] if cause in LABELS else cause for cause in causes]
        idle = _frame(gaps, titles, causes, gaps["wait"] + 1)
        name = say("GPU {device} idle", device=device) if several else say("GPU idle")
        yield EventLane(name, say("by cause"), idle)


def _calls(timeline: Timeline, thread: int | None) -> pd.DataFrame:
    """CUDA calls of a thread; those that waited are waits, with the user's call for a name."""
    calls, waits = timeline.tables.calls, timeline.tables.waits
    mine = calls if thread is None else calls[calls["thread"] == thread]
    waited = pd.Series(np.arange(1, len(waits) + 1), index=waits["call"].to_numpy())
    waited = waited[~waited.index.duplicated()].reindex(mine.index).fillna(0).astype("int64")
    kinds = np.where(waited > 0, "wait", "call")
    return _frame(mine, mine["name"], kinds, waited)


def _operators(timeline: Timeline) -> pd.DataFrame:
    """The outermost operators of each thread: what Python called, not what that called in turn."""
    trace = timeline.trace
    if "cpu_op" not in trace.categories:
        return _frame(pd.DataFrame({"start_ns": [], "end_ns": []}), [], []).assign(thread=[])
    columns = trace.columns
    rows = np.flatnonzero(columns["category"] == trace.categories.index("cpu_op"))
    order = rows[np.lexsort((-columns["end_ns"][rows], columns["start_ns"][rows], columns["tid"][rows]))]
    thread, start, end = (columns[key][order].astype("int64") for key in ("tid", "start_ns", "end_ns"))
    latest = pd.Series(end).groupby(thread).cummax().groupby(thread).shift(fill_value=np.iinfo("int64").min)
    outermost = start >= latest.to_numpy()
    frame = pd.DataFrame({"start_ns": start, "end_ns": end, "thread": thread})[outermost]
    codes = columns["name"][order][outermost]
    return _frame(frame, [trace.names[code] for code in codes], "operator").assign(thread=frame["thread"].to_numpy())


def _frame(table: pd.DataFrame, name: Any, kind: Any, link: Any = 0) -> pd.DataFrame:
    values = {"start_ns": table["start_ns"].to_numpy("int64"), "end_ns": table["end_ns"].to_numpy("int64")}
    plain = {key: np.asarray(value) if not isinstance(value, str | int) else value for key, value in
             (("name", name), ("kind", kind), ("link", link))}  # fmt: skip
    frame = pd.DataFrame(values).assign(**plain)
    return frame.sort_values(["start_ns", "end_ns"], kind="stable", ignore_index=True)


def _rows(table: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[column].tolist() for column in columns), strict=True)


# ---------------------------------------------------------------------------------------------------- packing


def _fitting(lanes: Sequence[EventLane], most: int) -> tuple[list[EventLane], int, int]:
    """The lanes with the shortest events gone, where there are too many: never a wait, never anything else first.
    Also how many are gone and the length below which."""
    total = sum(len(lane.frame) for lane in lanes)
    if total <= most:
        return list(lanes), 0, 0
    lengths = np.concatenate([_length(lane.frame) for lane in lanes])
    shortest = int(np.partition(lengths, total - most)[total - most])
    kept = [EventLane(lane.name, lane.part, lane.frame[_length(lane.frame) > shortest]) for lane in lanes]
    kept = [lane for lane in kept if len(lane.frame)]
    return kept, total - sum(len(lane.frame) for lane in kept), shortest + 1


def _length(frame: pd.DataFrame) -> Numbers:
    length = (frame["end_ns"] - frame["start_ns"]).to_numpy("int64")
    return np.where(frame["kind"] == "wait", np.iinfo("int64").max - 1, length)


def _packed(frame: pd.DataFrame, names: dict[str, int], origin: int) -> bytes:
    """Starts as differences, lengths, names, kinds, links; `names` grows."""
    codes, texts = pd.factorize(frame["name"].astype(str))
    numbers = np.array([names.setdefault(text, len(names)) for text in texts], dtype=np.int64)
    kinds = frame["kind"].map({kind: code for code, kind in enumerate(KINDS)}).fillna(KINDS.index("call"))
    starts = frame["start_ns"].to_numpy("int64")
    columns = (
        np.diff(starts, prepend=origin),
        np.maximum(frame["end_ns"].to_numpy("int64") - starts, 0),
        numbers[codes],
        kinds.to_numpy("int64"),
        frame["link"].to_numpy("int64"),
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
