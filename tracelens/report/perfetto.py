"""A Diagnosis as extra tracks in its own trace, to open in Perfetto.

In: a Diagnosis and the trace file's JSON. Out: the same JSON with rows added: findings, which wait costs step time, why
the GPU is idle and because of which wait, where the kept steps are, and how the predicted step would lie. Rows of the
original stay as they were; asked to trim, only those of some steps stay.

Each track is a thread of one process of our own. Slices on one track never cross (Perfetto drops what does): waits and
idle gaps get a track per thread and per device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.errors import UsageError
from tracelens.messages import say
from tracelens.model import Diagnosis, IllustratedDiagnosis, TraceTable
from tracelens.report.formatting import clean, milliseconds
from tracelens.report.wording import PARTS, VERDICT, stall_place

PROCESS, PREDICTED = 900_000_001, 900_000_002
"""Process ids no trace uses: Kineto's are native ids and device numbers."""
TRACKS = {"findings": 1, "steps": 2}
WAITS, IDLE = 100, 500
"""First track of the waits (one per thread) and of the idle time (one per device)."""
NAMES = {"findings": "findings", "steps": "kept steps"}
Row = dict[str, Any]


def annotated(
    document: Mapping[str, Any] | list[Any], diagnosis: IllustratedDiagnosis, steps: tuple[int, int] | None = None
) -> dict[str, Any]:
    """The document with our tracks; a bare list of events becomes an object. `steps`: only these, first and last."""
    whole: dict[str, Any] = dict(document) if isinstance(document, Mapping) else {"traceEvents": document}
    events = list(whole.get("traceEvents") or ())
    offset = _zero_us(events, whole, diagnosis)
    ours = [*_labels(diagnosis), *_rows(diagnosis, offset), *_predicted(diagnosis, offset, steps)]
    if steps is not None:
        window = _window(diagnosis, offset, steps)
        events, ours = [list(_within(rows, window)) for rows in (events, ours)]
    whole["traceEvents"] = [*events, *_ended(ours)]
    return whole


# ---------------------------------------------------------------------------------------------------- the clock


def _zero_us(events: list[Any], whole: Mapping[str, Any], diagnosis: Diagnosis) -> float:
    """The file's time at our zero, in the file's own µs."""
    base, ours = whole.get("baseTimeNanoseconds"), diagnosis.timeline.trace.base_unix_ns
    if isinstance(base, int) and ours is not None and base > 0:
        return (ours - base) / 1000
    return min(
        (float(e["ts"]) for e in events if isinstance(e, Mapping) and e.get("ph") == "X" and _timed(e)), default=0.0
    )


def _timed(event: Mapping[str, Any]) -> bool:
    """Rows at time zero without a length are unfinished records."""
    return "ts" in event and (float(event["ts"]) != 0 or float(event.get("dur") or 0) != 0)


def _window(diagnosis: Diagnosis, offset: float, steps: tuple[int, int]) -> tuple[float, float]:
    """From the start of the first step to the end of the last, in the file's µs."""
    table = diagnosis.timeline.tables.steps
    chosen = table[(table["number"] >= steps[0]) & (table["number"] <= steps[1])]
    if not len(chosen):
        existing = (
            say("it has {first} to {last}", first=table["number"].min(), last=table["number"].max())
            if len(table)
            else say("it has none")
        )
        raise UsageError(
            say(
                "the trace has no step {first} to {last}: {existing}",
                first=steps[0],
                last=steps[1],
                existing=existing,
            ),
            hint=say("give step numbers it has"),
        )
    return offset + int(chosen["start_ns"].min()) / 1000, offset + int(chosen["end_ns"].max()) / 1000


def _within(rows: Iterable[Any], window: tuple[float, float]) -> Iterator[Any]:
    """Rows that touch the window, whole; metadata stays."""
    for row in rows:
        untimed = not isinstance(row, Mapping) or row.get("ph") == "M" or "ts" not in row
        if untimed or (float(row["ts"]) < window[1] and float(row["ts"]) + float(row.get("dur") or 0) >= window[0]):
            yield row


def _ended(rows: list[Row]) -> list[Row]:
    """Without arrows that lost an end."""
    ends = [{row["id"] for row in rows if row["ph"] == phase} for phase in "sf"]
    return [row for row in rows if row["ph"] not in "sf" or row["id"] in ends[0] & ends[1]]


# ---------------------------------------------------------------------------------------------------- the rows


def _labels(diagnosis: Diagnosis) -> Iterator[Row]:
    yield from _process(PROCESS, "TraceLens", -2)
    names = {TRACKS[track]: name for track, name in NAMES.items()}
    names |= {track: f"waits of the host, thread {thread}" for thread, track in _threads(diagnosis).items()}
    names |= {track: f"GPU {device} idle, by cause" for device, track in _devices(diagnosis).items()}
    for track, name in names.items():
        yield _thread(PROCESS, track, name)


def _process(process: int, name: str, order: int) -> Iterator[Row]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": order}}


def _thread(process: int, track: int, name: str) -> Row:
    return {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name}}


def _threads(diagnosis: Diagnosis) -> dict[int, int]:
    return {thread: WAITS + k for k, thread in enumerate(_distinct(diagnosis.timeline.tables.waits["thread"]))}


def _devices(diagnosis: Diagnosis) -> dict[int, int]:
    return {device: IDLE + k for k, device in enumerate(_distinct(diagnosis.timeline.tables.gaps["device"]))}


def _row(track: int, name: str, span: tuple[int, int], offset: float, **arguments: Any) -> Row:
    start, end = span
    return {
        "ph": "X", "cat": "tracelens", "pid": PROCESS, "tid": track, "name": name,
        "ts": offset + start / 1000, "dur": (end - start) / 1000, "args": arguments,
    }  # fmt: skip


def _rows(diagnosis: Diagnosis, offset: float) -> Iterator[Row]:
    yield from _findings(diagnosis, offset)
    yield from _steps(diagnosis, offset)
    yield from _waits(diagnosis, offset)
    yield from _idle(diagnosis, offset)


def _findings(diagnosis: Diagnosis, offset: float) -> Iterator[Row]:
    """Side by side over the kept steps, equally wide: a list that can be read in the viewer."""
    steps = diagnosis.timeline.tables.steps
    kept = steps[steps["kept"]]
    if not len(kept) or not diagnosis.findings:
        return
    start, end = int(kept["start_ns"].min()), int(kept["end_ns"].max())
    width = (end - start) // len(diagnosis.findings)
    for position, finding in enumerate(diagnosis.findings):
        facts = {
            "where": clean(str(finding.location)) if finding.location else "not recorded",
            "per step": milliseconds(finding.cost_ns),
            "share of the step": f"{100 * finding.share:.1f} %",
            "evidence": clean(finding.evidence),
        }
        at = start + position * width
        yield _row(TRACKS["findings"], f"{finding.title} ({finding.id})", (at, at + width), offset, **facts)


def _steps(diagnosis: Diagnosis, offset: float) -> Iterator[Row]:
    steps = diagnosis.timeline.tables.steps
    for row in _records(steps[steps["kept"]], "number", "start_ns", "end_ns"):
        yield _row(TRACKS["steps"], f"step {row['number']}", (row["start_ns"], row["end_ns"]), offset)


def _waits(diagnosis: Diagnosis, offset: float) -> Iterator[Row]:
    tracks = _threads(diagnosis)
    rows = list(_records(diagnosis.timeline.tables.waits, "start_ns", "end_ns", "thread"))
    for stall in diagnosis.stalls:
        what = f"{clean(stall.call or stall.api)} ({VERDICT[stall.verdict]})"
        facts = {
            "where": stall_place(stall),
            "host blocked per step": milliseconds(stall.wait_ns),
            "GPU idle per step": milliseconds(stall.gpu_idle_ns),
            "recoverable per step": milliseconds(stall.exposed_ns),
        }
        for position in stall.waits:
            row = rows[position]
            yield _row(tracks[row["thread"]], what, (row["start_ns"], row["end_ns"]), offset, **facts)


def _idle(diagnosis: Diagnosis, offset: float) -> Iterator[Row]:
    """Idle time by cause, with an arrow from the wait that owns it."""
    tracks, waited, gaps = _devices(diagnosis), _threads(diagnosis), diagnosis.timeline.tables.gaps
    waits = list(_records(diagnosis.timeline.tables.waits, "start_ns", "end_ns", "thread"))
    shown = {position for stall in diagnosis.stalls for position in stall.waits}
    for number, row in enumerate(_records(gaps, "start_ns", "end_ns", "device", "wait", "cause")):
        part = f"idle_{row['cause']}"
        name = PARTS[part][0] if part in PARTS else str(row["cause"])
        track = tracks[row["device"]]
        yield _row(track, name, (row["start_ns"], row["end_ns"]), offset, device=row["device"])
        if row["wait"] in shown:
            cause = waits[row["wait"]]
            yield _arrow("s", number, waited[cause["thread"]], offset + cause["start_ns"] / 1000)
            yield {**_arrow("f", number, track, offset + row["start_ns"] / 1000), "bp": "e"}


def _records(table: TraceTable, *names: str) -> Iterator[dict[str, Any]]:
    """The rows by the names of some columns, in plain values."""
    columns = (table[name].tolist() for name in names)
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _distinct(column: npt.NDArray[np.int64]) -> list[int]:
    return [int(value) for value in np.unique(column)]


def _arrow(phase: str, number: int, track: int, at_us: float) -> Row:
    name = {"ph": phase, "cat": "tracelens", "name": "idle because of", "id": PROCESS + number}
    return {**name, "pid": PROCESS, "tid": track, "ts": at_us}


def _predicted(diagnosis: IllustratedDiagnosis, offset: float, steps: tuple[int, int] | None) -> Iterator[Row]:
    """The step as it is replayed without and with the scheme, from the start of the first step that is shown."""
    table = diagnosis.timeline.tables.steps
    chosen = table[table["kept"]] if steps is None else table[table["number"] >= steps[0]]
    if not len(chosen) or not diagnosis.drawn:
        return
    yield from _process(PREDICTED, "TraceLens: one step, replayed", -1)
    start = int(chosen["start_ns"].min())
    track = 0
    for drawn in diagnosis.drawn:
        version = f"with {drawn.scheme}" if drawn.scheme else "as it is"
        for lane in dict.fromkeys(bar.lane for bar in drawn.bars):
            track += 1
            yield _thread(PREDICTED, track, f"{version}: {lane}")
            for bar in drawn.bars:
                if bar.lane == lane:
                    row = _row(track, clean(bar.name), (start + bar.start_ns, start + bar.end_ns), offset)
                    yield {**row, "pid": PREDICTED, "args": {"step": milliseconds(drawn.length_ns)}}
