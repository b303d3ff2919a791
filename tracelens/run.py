"""The Run folder: where it is, what it holds, reading and writing it.

In: a path. Out: a `Run` value, or files written atomically. Only this module knows the names of the files in a Run
folder. Paths inside run.json are relative to the Run folder, so that a Run can be moved, committed or mailed.

    run.json                        what was launched, where, and per rank the step clock and the window
    rank0/<name>.pt.trace.json.gz   the trace; a name that TensorBoard's and HTA's readers accept
    rank0/sources.json              marks and stack samples that tie waits to source lines
    monitor.jsonl                   GPU (NVML) and CPU samples with host time
    analysis.json report.html tracelens.patch verify.json backup/
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tracelens import jsonfile
from tracelens.errors import InputError, UsageError
from tracelens.jsonfile import Shape
from tracelens.model import EventUse, Location, RankRecording, Run, SourceMark, StackSample, StepClock

SCHEMA_VERSION = 1
RUNS_FOLDER = "tracelens-runs"
RUN_FILE = "run.json"
ANALYSIS_FILE = "analysis.json"
REPORT_FILE = "report.html"
PATCH_FILE = "tracelens.patch"
MONITOR_FILE = "monitor.jsonl"
BACKUP_FOLDER = "backup"

_AGAIN = "record again: tracelens profile train.py"
_SUPPLY = {"seconds": float, "batches": int, "worker_seconds": float, "ready": int}
_LOADER = {"num_workers": int, "pin_memory": bool, "batches": int, "batch_bytes": int, "supply": _SUPPLY}
_CLOCK = {"unprofiled_ns": [int], "unprofiled_mean_ns": float, "unprofiled_clock": str, "profiled_ns": [int]}
_RANK: Shape = {
    "rank": int,
    "trace": str,
    "sources": str,
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
_PLACE = {"path": str, "line": int, "function": str}
_MARK = {"start_unix_ns": int, "end_unix_ns": int, "thread": int, "call": str, **_PLACE}
_EVENT = {"start_unix_ns": int, "end_unix_ns": int, "thread": int, "call": str, "event": int, "stream": int}
_SOURCES: Shape = {"marks": [_MARK], "samples": [{"unix_ns": int, "thread": int, **_PLACE}], "events": [_EVENT]}
_SAMPLE: Shape = {"unix_ns": int, "cpu_percent": float, "gpus": [{"utilization": float}]}


def new_folder(script: str, parent: Path, now: datetime | None = None) -> Path:
    """Create `parent/<utc>-<script>-<id>` and return it; the id keeps two starts in one second apart."""
    # Not datetime.UTC: this module is also imported inside the user's process, which may be a Python 3.10.
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%d-%H%M%S")  # noqa: UP017
    stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in Path(script).stem)[:40] or "run"
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = parent / f"{stamp}-{stem}-{os.urandom(2).hex()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder


def newest(parent: Path) -> Path:
    """The newest complete Run below `parent`; raises `InputError` if there is none."""
    try:
        folders = sorted(_run_folders(parent), reverse=True)
    except OSError as error:
        raise InputError(f"{parent} cannot be read: {error.strerror}", hint="name the run to work on") from error
    for folder in folders:
        with contextlib.suppress(InputError):
            if read(folder).complete:
                return folder
    raise InputError(
        f"no complete run under {parent}",
        hint="record one first: tracelens profile train.py",
    )


def is_run(folder: Path) -> bool:
    """Whether a Run folder is there; no for a path that cannot even be looked at."""
    with contextlib.suppress(OSError):
        return (folder / RUN_FILE).is_file()
    return False


def read(folder: Path) -> Run:
    """Read a Run folder; raises `InputError` with the file and what is wrong with it."""
    missing = "give a folder that `tracelens profile` wrote, or a trace file"
    meta = jsonfile.read(folder / RUN_FILE, missing=missing, damaged=_AGAIN)
    version = meta.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{folder / RUN_FILE} has schema version {version!r}, this program reads {SCHEMA_VERSION}",
            hint="read it with the version of TraceLens that wrote it, or record again",
        )
    try:
        jsonfile.check(meta, _RUN)
        return _run_from(folder, meta)
    except KeyError as error:
        raise InputError(
            f"{folder / RUN_FILE} is not a run description: {error.args[0]} is missing",
            hint=_AGAIN,
        ) from error
    except (TypeError, ValueError, OverflowError, OSError) as error:  # OSError: a path no file system takes
        raise InputError(f"{folder / RUN_FILE} is not a run description: {error}", hint=_AGAIN) from error


def samples(folder: Path) -> tuple[dict[str, Any], ...]:
    """The samples of the Run's monitor.jsonl; rows of another kind (iterations of a training monitor) are left out."""
    return tuple(row for row in rows(folder / MONITOR_FILE) if "iteration" not in row)


def rows(path: Path) -> tuple[dict[str, Any], ...]:
    """The rows of a monitor.jsonl that are whole and have a time; a job that was killed leaves half a last line."""
    if not path.is_file():
        return ()
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            jsonfile.check(row, _SAMPLE)
            if row and row.get("unix_ns") is not None:
                found.append(row)
    return tuple(found)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically: a reader sees the old file or the new one, never half of it."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    # A path or argument that is no UTF-8 holds lone surrogates; backslashed, they are JSON's own notation for them.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
    """Write a file atomically in its own folder (the only place a rename is sure to work), permissions kept.

    With a `mark` the file that is renamed is called `temporary(path, mark)`: whoever finds it knows whose it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    if mark is None:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    else:
        name = str(temporary(path, mark))
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def temporary(path: Path, mark: str) -> Path:
    """What a file is made from that `write_bytes` writes with this mark; short enough for every file system."""
    return path.parent / f".{path.name[:50]}.tracelens-{mark}"


def write_output(path: Path, data: bytes) -> None:
    """Write a file that the user asked for; raises `UsageError` with what is in the way."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a device or pipe, such as /dev/stdout, must not be replaced by a file
        else:
            write_bytes(path, data)
    except OSError as error:
        blocked = isinstance(error, FileExistsError | NotADirectoryError)
        reason = "a file is where a folder should be" if blocked else error.strerror or str(error)
        raise UsageError(f"{path} cannot be written: {reason}", hint="give a place that can be written") from error


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def relative(path: Path, folder: Path) -> str:
    """`path` as run.json stores it: relative to the Run folder, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


# ------------------------------------------------------------------------------------------------------ reading


def _run_folders(parent: Path) -> Iterator[Path]:
    if not parent.is_dir():
        return
    for entry in parent.iterdir():
        if is_run(entry):
            yield entry


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
        attributed_steps=tuple(int(k) for k in entry.get("attributed_steps") or ()),
        meta=entry,
    )


def _lengths(values: Sequence[int] | None) -> tuple[int, ...]:
    """Step times; one that is not above zero was not measured."""
    return tuple(int(ns) for ns in values or () if ns > 0)


def _sources(path: Path) -> dict[str, Any]:
    found = jsonfile.read(path, missing=_AGAIN, damaged=_AGAIN) if path.is_file() else {}
    jsonfile.check(found, _SOURCES, path.name)
    return found


def _mark(row: dict[str, Any]) -> SourceMark:
    return SourceMark(
        int(row["start_unix_ns"]), int(row["end_unix_ns"]), int(row["thread"]), row["call"], _location(row)
    )


def _sample(row: dict[str, Any]) -> StackSample:
    return StackSample(int(row["unix_ns"]), int(row["thread"]), _location(row))


def _event(row: dict[str, Any]) -> EventUse:
    times = int(row["start_unix_ns"]), int(row["end_unix_ns"])
    stream = row.get("stream")
    return EventUse(*times, int(row["thread"]), str(row["call"]), int(row["event"]), None if stream is None else stream)


def _location(row: dict[str, Any]) -> Location:
    return Location(str(row["path"]), row.get("line"), row.get("function"))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
