"""Where a Run folder is and what the files in it are called.

    run.json                        what was launched, where, and per rank the step clock and the window
    rank0/<name>.pt.trace.json.gz   the trace; a name that TensorBoard's and HTA's readers accept
    rank0/sources.json              marks and stack samples that tie waits to source lines
    rank0/lines.json                what the line clock logged in the attributed steps
    monitor.jsonl                   GPU (NVML) and CPU samples with host time
    analysis.json report.html tracelens.patch verify.json backup/

Paths inside run.json are relative to the Run folder, so that a Run can be moved, committed or mailed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

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
    # Not datetime.UTC: this module is also imported inside the user's process, which may be a Python 3.10.
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%d-%H%M%S")  # noqa: UP017
    stem = "".join(c if c.isalnum() or c in "-_" else "_" for c in Path(script).stem)[:40] or "run"
    parent.mkdir(parents=True, exist_ok=True)
    while True:
        folder = parent / f"{stamp}-{stem}-{os.urandom(2).hex()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder


def is_run(folder: Path) -> bool:
    """Whether a Run folder is there; no for a path that cannot even be looked at."""
    with contextlib.suppress(OSError):
        return (folder / RUN_FILE).is_file()
    return False


def relative(path: Path, folder: Path) -> str:
    """`path` as run.json stores it: relative to the Run folder, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def sha256(data: bytes) -> str:
    """The content of a file as run.json and the manifest of a patch record it."""
    return hashlib.sha256(data).hexdigest()


def run_folders(parent: Path) -> Iterator[Path]:
    """The Run folders directly below `parent`, in no order."""
    if not parent.is_dir():
        return
    for entry in parent.iterdir():
        if is_run(entry):
            yield entry
