"""A Diagnosis as extra tracks in its own trace, to open in Perfetto.

In: a Diagnosis and the trace file's JSON. Out: the same JSON with rows added: which wait costs step time, why the GPU
is idle, where the kept steps are. Every row of the original stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tracelens.model import Diagnosis
from tracelens.report.words import PARTS, VERDICT, clean, milliseconds, stall_place

PROCESS = 900_000_001
"""A process id no trace uses: Kineto's are native ids and device numbers."""
TRACKS = {"steps": 1, "waits": 2, "idle": 3}
NAMES = {"steps": "kept steps", "waits": "waits of the host", "idle": "GPU idle, by cause"}


def annotated(document: Mapping[str, Any] | list[Any], diagnosis: Diagnosis) -> dict[str, Any]:
    """The document with our tracks; a bare list of events becomes an object."""
    whole: dict[str, Any] = dict(document) if isinstance(document, Mapping) else {"traceEvents": document}
    events = list(whole.get("traceEvents") or ())
    offset = _zero_us(events, whole, diagnosis)
    ours = (_steps, _waits, _idle)
    whole["traceEvents"] = [*events, *_labels(), *(row for rows in ours for row in rows(diagnosis, offset))]
    return whole


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


def _labels() -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": PROCESS, "args": {"name": "TraceLens"}}
    yield {"ph": "M", "name": "process_sort_index", "pid": PROCESS, "args": {"sort_index": -1}}
    for track, thread in TRACKS.items():
        yield {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": thread, "args": {"name": NAMES[track]}}


def _row(track: str, name: str, span: tuple[int, int], offset: float, **arguments: Any) -> dict[str, Any]:
    start, end = span
    return {
        "ph": "X", "cat": "tracelens", "pid": PROCESS, "tid": TRACKS[track], "name": name,
        "ts": offset + start / 1000, "dur": (end - start) / 1000, "args": arguments,
    }  # fmt: skip


def _steps(diagnosis: Diagnosis, offset: float) -> Iterator[dict[str, Any]]:
    steps = diagnosis.timeline.steps()
    for row in steps[steps["kept"]].to_dict("records"):
        yield _row("steps", f"step {row['number']}", (row["start_ns"], row["end_ns"]), offset)


def _waits(diagnosis: Diagnosis, offset: float) -> Iterator[dict[str, Any]]:
    table = diagnosis.timeline.syncs()
    rows = table[["start_ns", "end_ns"]].to_dict("records")
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
            yield _row("waits", what, (row["start_ns"], row["end_ns"]), offset, **facts)


def _idle(diagnosis: Diagnosis, offset: float) -> Iterator[dict[str, Any]]:
    for row in diagnosis.timeline.idle_gaps().to_dict("records"):
        part = f"idle_{row['cause']}"
        name = PARTS[part][0] if part in PARTS else str(row["cause"])
        yield _row("idle", name, (row["start_ns"], row["end_ns"]), offset, device=row["device"])
