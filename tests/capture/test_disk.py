"""A full disk, a folder that vanishes, traces that do not fit: the job goes on and the reason is said."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.recording import PLAN, plain, record
from tracelens import run
from tracelens.capture.inside import rank_files
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.capture.supervisor.recording import ProfileOptions, profile

# ---------------------------------------------------------------------------------------------- disk and folders


@pytest.mark.programs
def test_on_a_full_disk_the_job_goes_on_and_the_reason_is_said(tmp_path: Path) -> None:
    """No file may grow beyond 30 kB: neither the trace nor its compressed copy can be written, rank.json can."""
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000));"
    code = limited + "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    words = (sys.executable, "-c", code, plain(), "60")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    outcome = profile(ProfileOptions("command", words, cwd=tmp_path, plan=PLAN, monitor=False))
    assert (outcome.status, outcome.complete, outcome.ranks) == (done.returncode, False, 0)
    assert "is the disk full?" in (outcome.reason or "")
    assert not list(outcome.folder.glob("rank0/*.json*.tmp"))
    assert not list(outcome.folder.glob("rank0/*trace*"))


@pytest.mark.programs
def test_a_disk_without_any_room_is_told_from_no_steps(tmp_path: Path) -> None:
    limited = "import os, resource, runpy, sys; sys.stdout = open(os.devnull, 'w');"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10));"
    code = limited + "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    outcome = profile(
        ProfileOptions("command", (sys.executable, "-c", code, plain(), "60"), cwd=tmp_path, plan=PLAN, monitor=False)
    )
    assert outcome.status == 0
    assert "was not written to its end" in (outcome.reason or "")


@pytest.mark.programs
def test_a_run_folder_that_vanishes_hurts_nobody(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = Path(plain()).read_text(encoding="utf-8").replace("abspath(__file__)", f"abspath({plain()!r})")
    gone = "        if number == 10:\n            __import__('shutil').rmtree('tracelens-runs')\n"
    script.write_text(text.replace("        value = loss.item()\n", "        value = loss.item()\n" + gone))
    outcome = record(tmp_path, "train.py", "60")
    assert outcome.status == 0
    assert outcome.ranks == 1  # the folder was made anew
    assert run.read(outcome.folder).recordings


@pytest.mark.programs
def test_what_fills_tmpdir_does_not_concern_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/dev/null/full")
    outcome = record(tmp_path, plain(), "60")
    assert (outcome.status, outcome.complete) == (0, True)


def test_a_trace_that_does_not_fit_compressed_stays_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "x.json"
    trace.write_text("{}")

    class Full:
        def compress(self, _chunk: bytes) -> bytes:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(rank_files.zlib, "compressobj", lambda *_: Full())
    with pytest.raises(OSError, match="No space"):
        rank_files.compress(trace)
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


# ------------------------------------------------------------------------------ nothing is saved until it is read


def entry_of(folder: Path, content: bytes, device: str = "cpu") -> dict[str, Any]:
    place = folder / "rank0"
    place.mkdir(exist_ok=True)
    (place / "t.pt.trace.json.gz").write_bytes(gzip.compress(content))
    row = {"rank": 0, "world_size": 1, "trace": "rank0/t.pt.trace.json.gz", "complete": True, "reason": None,
           "process": {"device": device}}  # fmt: skip
    run.write_json(place / "rank.json", row)
    ledger = RunJsonWriter(folder, LaunchRecord("script", ("python", "a.py"), folder, None, {}, False, 10))
    ledger.collect()
    (entry,) = ledger.entries
    return entry


EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}'


def test_every_trace_is_parsed_before_it_is_called_saved(tmp_path: Path) -> None:
    whole = b'{"traceEvents": [' + EVENT + b"]}"
    assert entry_of(tmp_path, whole % b"a")["reason"] is None
    assert entry_of(tmp_path, whole % b'a "quoted" name')["reason"] is None  # repaired when it is read
    assert "no complete timed event" in str(entry_of(tmp_path, b'{"traceEvents": []}')["reason"])
    assert "not complete" in str(entry_of(tmp_path, b'{"traceEvents": [' + EVENT % b"a" + b", ")["reason"])
    assert "ends early" in str(entry_of(tmp_path, b'{"traceEvents": [' + EVENT % b"a")["reason"])
    assert "holds no GPU work" in str(entry_of(tmp_path, whole % b"a", "NVIDIA H200")["reason"])


def test_an_entry_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    """A window of time gives way to steps that came after all."""
    whole = b'{"traceEvents": [' + EVENT % b"a" + b"]}"
    entry_of(tmp_path, whole)
    ledger = RunJsonWriter(tmp_path, LaunchRecord("script", ("python", "a.py"), tmp_path, None, {}, False, 10))
    path = tmp_path / "rank0" / "rank.json"
    row = json.loads(path.read_text())
    run.write_json(path, row | {"window": {"provisional": True}})
    ledger.collect()
    assert (len(ledger.recorded()), len(ledger.recorded(final=True))) == (1, 0)
    time.sleep(0.01)
    run.write_json(path, row)
    ledger.collect()
    assert len(ledger.recorded(final=True)) == 1
