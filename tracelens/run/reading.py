"""Reading a Run folder: run.json and what each rank left beside its trace, checked against the shapes below.

In: a folder. Out: a `Run`, or `InputError` with the file and what is wrong with it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tracelens import jsonfile
from tracelens.errors import InputError
from tracelens.jsonfile import Shape
from tracelens.messages import say
from tracelens.model import (
    EventUse,
    GarbageCollection,
    LineLog,
    Location,
    RankRecording,
    Run,
    SourceMark,
    StackSample,
    StepClock,
)
from tracelens.run import line_log
from tracelens.run.folder import MONITOR_FILE, RUN_FILE, SCHEMA_VERSION, run_folders

_AGAIN = say("record again: tracelens profile SCRIPT")
_SUPPLY = {"seconds": float, "batches": int, "worker_seconds": float, "ready": int}
_PLACE = {"path": str, "line": int, "function": str}
_SPLIT = {"batches": int, "workers": int, "fetch_ns": int, "collate_ns": int, "transforms": {}}
_SPLIT |= {"sample_place": _PLACE, "collate_place": _PLACE}
_INDEX = {"first_batches": int, "first_ns": int, "other_batches": int, "other_ns": int}
_LOADER = {
    "num_workers": int,
    "pin_memory": bool,
    "batches": int,
    "batch_bytes": int,
    "supply": _SUPPLY,
    "split": _SPLIT,
    "iterators": int,
    "index": _INDEX,
}
_CLOCK = {"unprofiled_ns": [int], "unprofiled_mean_ns": float, "unprofiled_clock": str, "profiled_ns": [int]}
_RANK: Shape = {
    "rank": int,
    "trace": str,
    "sources": str,
    "lines": str,
    "slow_lines": str,
    "slow_step": {"number": int, "ns": int},
    "clock": _CLOCK,
    "step_marks": str,
    "attributed_steps": [int],
    "memory": {"free_bytes": int, "total_bytes": int, "peak_bytes": int},
    "loaders": [_LOADER],
}
_RUN: Shape = {
    "command": [str],
    "cwd": str,
    "script": {"path": str, "sha256": str},
    "git": {"revision": str},
    "environment": {},
    "capture": {"kind": str, "interval": int},
    "ranks": [_RANK],
    "reason": str,
}
"""What readers of run.json rely on, checked once, here; every value may also be null: not known."""
_MARK = {"start_unix_ns": int, "end_unix_ns": int, "thread": int, "call": str, **_PLACE}
_EVENT = {"start_unix_ns": int, "end_unix_ns": int, "thread": int, "call": str, "event": int, "stream": int}
_COLLECTION = {"start_unix_ns": int, "end_unix_ns": int, "thread": int, "generation": int, "place": _PLACE}
_SOURCES: Shape = {
    "marks": [_MARK],
    "samples": [{"unix_ns": int, "thread": int, **_PLACE}],
    "events": [_EVENT],
    "collections": [_COLLECTION],
}
_SAMPLE: Shape = {
    "unix_ns": int,
    "cpu_percent": float,
    "process_cpu_percent": float,
    "cpu_limit_periods": int,
    "cpu_limit_stopped": int,
    "gpus": [{"utilization": float}],
}


def newest(parent: Path) -> Path:
    """The newest complete Run below `parent`; raises `InputError` if there is none."""
    try:
        folders = sorted(run_folders(parent), reverse=True)
    except OSError as error:
        raise InputError(
            say("{parent} cannot be read: {strerror}", parent=parent, strerror=error.strerror),
            hint=say("name the run to work on"),
        ) from error
    for folder in folders:
        with contextlib.suppress(InputError):
            if read(folder).complete:
                return folder
    raise InputError(
        say("no complete run under {parent}", parent=parent),
        hint=say("record one first: tracelens profile train.py"),
    )


def read(folder: Path) -> Run:
    """Read a Run folder; raises `InputError` with the file and what is wrong with it."""
    missing = say("give a folder that `tracelens profile` wrote, or a trace file")
    meta = jsonfile.read(folder / RUN_FILE, missing=missing, damaged=_AGAIN)
    version = meta.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            say(
                "{folder} has schema version {version!r}, this program reads {schema_version}",
                folder=folder / RUN_FILE,
                version=version,
                schema_version=SCHEMA_VERSION,
            ),
            hint=say("read it with the version of TraceLens that wrote it, or record again"),
        )
    try:
        jsonfile.check(meta, _RUN)
        return _run_from(folder, meta)
    except KeyError as error:
        raise InputError(
            say("{folder} is not a run description: {key} is missing", folder=folder / RUN_FILE, key=error.args[0]),
            hint=_AGAIN,
        ) from error
    except (TypeError, ValueError, OverflowError, OSError) as error:  # OSError: a path no file system takes
        raise InputError(
            say("{folder} is not a run description: {error}", folder=folder / RUN_FILE, error=error), hint=_AGAIN
        ) from error


def samples(folder: Path) -> tuple[dict[str, Any], ...]:
    """The samples of the Run's monitor.jsonl; rows of another kind (iterations of a training monitor) are left out."""
    return tuple(row for row in rows(folder / MONITOR_FILE) if "iteration" not in row)


def rows(path: Path) -> tuple[dict[str, Any], ...]:
    """The rows of a monitor.jsonl that are whole and have a time; a job that was killed leaves half a last line."""
    if not path.is_file():
        return ()
    whole = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            jsonfile.check(row, _SAMPLE)
            if row and row.get("unix_ns") is not None:
                whole.append(row)
    return tuple(whole)


def _run_from(folder: Path, meta: dict[str, Any]) -> Run:
    if not meta["command"]:
        raise ValueError("command is empty")
    cwd = (folder / meta["cwd"]).resolve()
    script = meta.get("script") or {}
    return Run(
        path=folder,
        command=tuple(str(word) for word in meta["command"]),
        script=(cwd / script["path"]).resolve() if script.get("path") else None,
        cwd=cwd,
        complete=bool(meta.get("complete")),
        recordings=tuple(_recording_from(folder, entry) for entry in meta.get("ranks") or ()),
        meta=meta,
    )


def _recording_from(folder: Path, entry: dict[str, Any]) -> RankRecording:
    trace = entry.get("trace")
    clock = entry.get("clock") or {}
    mean = clock.get("unprofiled_mean_ns")
    sources = _sources(folder / entry["sources"]) if entry.get("sources") else {}
    return RankRecording(
        rank=int(entry["rank"]),
        trace_path=folder / trace if trace else None,
        clock=StepClock(
            unprofiled_ns=_lengths(clock.get("unprofiled_ns")),
            unprofiled_mean_ns=mean if mean is not None and mean > 0 else None,
            profiled_ns=_lengths(clock.get("profiled_ns")),
        ),
        marks=tuple(_mark(row) for row in sources.get("marks") or ()),
        samples=tuple(_sample(row) for row in sources.get("samples") or ()),
        events=tuple(_event(row) for row in sources.get("events") or ()),
        collections=tuple(_collection(row) for row in sources.get("collections") or ()),
        lines=_lines(folder / entry["lines"]) if entry.get("lines") else None,
        slow_lines=_lines(folder / entry["slow_lines"]) if entry.get("slow_lines") else None,
        attributed_steps=tuple(int(k) for k in entry.get("attributed_steps") or ()),
        meta=entry,
    )


def _lengths(values: Sequence[int] | None) -> tuple[int, ...]:
    """Step times; one that is not above zero was not measured."""
    return tuple(int(ns) for ns in values or () if ns > 0)


def _sources(path: Path) -> dict[str, Any]:
    content = jsonfile.read(path, missing=_AGAIN, damaged=_AGAIN) if path.is_file() else {}
    jsonfile.check(content, _SOURCES, path.name)
    return content


def _lines(path: Path) -> LineLog | None:
    """The line clock's log; None where the file is gone, because everything else can be read without."""
    if not path.is_file():
        return None
    document = jsonfile.read(path, missing=_AGAIN, damaged=_AGAIN)
    jsonfile.check(document, line_log.SHAPE, path.name)
    return line_log.parse(document, path.name)


def _collection(row: dict[str, Any]) -> GarbageCollection:
    place = row.get("place")
    times = int(row["start_unix_ns"]), int(row["end_unix_ns"])
    return GarbageCollection(
        *times, int(row["thread"]), int(row["generation"]), None if place is None else _location(place)
    )


def _mark(row: dict[str, Any]) -> SourceMark:
    return SourceMark(
        int(row["start_unix_ns"]), int(row["end_unix_ns"]), int(row["thread"]), row["call"], _location(row)
    )


def _sample(row: dict[str, Any]) -> StackSample:
    return StackSample(int(row["unix_ns"]), int(row["thread"]), _location(row))


def _event(row: dict[str, Any]) -> EventUse:
    times = int(row["start_unix_ns"]), int(row["end_unix_ns"])
    return EventUse(*times, int(row["thread"]), str(row["call"]), int(row["event"]), row.get("stream"))


def _location(row: dict[str, Any]) -> Location:
    return Location(str(row["path"]), row.get("line"), row.get("function"))
