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
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelens.errors import InputError
from tracelens.model import Location, RankRecording, Run, SourceMark, StackSample, StepClock

SCHEMA_VERSION = 1
RUNS_FOLDER = "tracelens-runs"
RUN_FILE = "run.json"
ANALYSIS_FILE = "analysis.json"
REPORT_FILE = "report.html"
PATCH_FILE = "tracelens.patch"
MONITOR_FILE = "monitor.jsonl"
BACKUP_FOLDER = "backup"


def new_folder(script: str, parent: Path, now: datetime | None = None) -> Path:
    """Create `parent/<utc>-<script>-<id>` and return it; the id keeps two starts in one second apart."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in Path(script).stem)[:40] or "run"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{stamp}-{stem}-", dir=parent))


def newest(parent: Path) -> Path:
    """The newest complete Run below `parent`; raises `InputError` if there is none."""
    for folder in sorted(_run_folders(parent), reverse=True):
        with contextlib.suppress(InputError):
            if read(folder).complete:
                return folder
    raise InputError(
        f"no complete run under {parent}",
        hint="record one first: tracelens profile train.py",
    )


def read(folder: Path) -> Run:
    """Read a Run folder; raises `InputError` with the file and what is wrong with it."""
    meta = _read_json(folder / RUN_FILE)
    version = meta.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{folder / RUN_FILE} has schema version {version!r}, this program reads {SCHEMA_VERSION}",
            hint="read it with the version of TraceLens that wrote it, or record again",
        )
    try:
        return _run_from(folder, meta)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{folder / RUN_FILE} is not a run description: {error!r}", hint="record again: tracelens profile train.py"
        ) from error


def samples(folder: Path) -> tuple[dict[str, Any], ...]:
    """The rows of monitor.jsonl that are whole; a job that was killed leaves half a last line."""
    path = folder / MONITOR_FILE
    if not path.is_file():
        return ()
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return tuple(rows)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically: a reader sees the old file or the new one, never half of it."""
    write_bytes(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())


def write_bytes(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file atomically in its own folder (the only place a rename is sure to work), permissions kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
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
        if (entry / RUN_FILE).is_file():
            yield entry


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist", hint="give a folder that `tracelens profile` wrote, or a trace file"
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}", hint="record again: tracelens profile train.py") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object", hint="record again: tracelens profile train.py")
    return value


def _run_from(folder: Path, meta: dict[str, Any]) -> Run:
    cwd = (folder / meta["cwd"]).resolve()
    script = meta.get("script") or {}
    return Run(
        path=folder,
        command=tuple(str(word) for word in meta["command"]),
        script=(cwd / script["path"]).resolve() if script.get("path") else None,
        cwd=cwd,
        complete=bool(meta.get("complete")),
        recordings=tuple(_recording_from(folder, entry) for entry in meta.get("ranks", [])),
        meta=meta,
    )


def _recording_from(folder: Path, entry: dict[str, Any]) -> RankRecording:
    trace = entry.get("trace")
    clock = entry.get("clock") or {}
    sources = _sources(folder / entry["sources"]) if entry.get("sources") else {}
    return RankRecording(
        rank=int(entry["rank"]),
        trace_path=folder / trace if trace else None,
        clock=StepClock(
            unprofiled_ns=tuple(int(ns) for ns in clock.get("unprofiled_ns", [])),
            unprofiled_mean_ns=clock.get("unprofiled_mean_ns"),
            profiled_ns=tuple(int(ns) for ns in clock.get("profiled_ns", [])),
        ),
        marks=tuple(_mark(row) for row in sources.get("marks", [])),
        samples=tuple(_sample(row) for row in sources.get("samples", [])),
        attributed_steps=tuple(int(k) for k in entry.get("attributed_steps", [])),
        meta=entry,
    )


def _sources(path: Path) -> dict[str, Any]:
    return _read_json(path) if path.is_file() else {}


def _mark(row: dict[str, Any]) -> SourceMark:
    return SourceMark(
        int(row["start_unix_ns"]), int(row["end_unix_ns"]), int(row["thread"]), row["call"], _location(row)
    )


def _sample(row: dict[str, Any]) -> StackSample:
    return StackSample(int(row["unix_ns"]), int(row["thread"]), _location(row))


def _location(row: dict[str, Any]) -> Location:
    return Location(str(row["path"]), row.get("line"), row.get("function"))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
