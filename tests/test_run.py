"""The Run folder: what is written can be read, what is damaged is said in one sentence."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tracelens import run
from tracelens.errors import InputError
from tracelens.model import Location


def description(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "command": ["train.py", "--epochs", "1"],
        "cwd": "../..",
        "script": {"path": "train.py", "sha256": "0" * 64},
        "complete": True,
        "ranks": [
            {
                "rank": 0,
                "trace": "rank0/a.pt.trace.json.gz",
                "sources": "rank0/sources.json",
                "clock": {"unprofiled_ns": [5, 6], "unprofiled_mean_ns": 5, "profiled_ns": [9]},
                "attributed_steps": [12, 13],
            }
        ],
    } | changes


def write_run(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    run.write_json(folder / "run.json", description(**changes))
    return folder


def test_a_run_reads_back(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "tracelens-runs" / "a")
    row = {"path": "train.py", "line": 7, "function": "main"}
    marks = [{"start_unix_ns": 1, "end_unix_ns": 2, "thread": 3, "call": "Tensor.item", **row}]
    run.write_json(folder / "rank0" / "sources.json", {"marks": marks, "samples": [{"unix_ns": 4, "thread": 3, **row}]})

    value = run.read(folder)

    assert value.cwd == tmp_path.resolve()
    assert value.script == tmp_path.resolve() / "train.py"
    recording = value.recordings[0]
    assert recording.trace_path == folder / "rank0/a.pt.trace.json.gz"
    assert recording.clock.unprofiled_ns == (5, 6)
    assert recording.attributed_steps == (12, 13)
    assert recording.marks[0].location == Location("train.py", 7, "main")
    assert recording.samples[0].unix_ns == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "not a JSON object"),
        ('{"schema_version": 99}', "schema version 99"),
        ('{"schema_version": 1}', "not a run description"),
        (json.dumps(description(ranks=[{"rank": "x"}])), "not a run description"),
        (json.dumps(description(ranks=7)), "not a run description"),
    ],
)
def test_a_damaged_description_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        run.read(tmp_path)
    assert caught.value.hint


def test_a_missing_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        run.read(tmp_path / "nothing")


def test_the_newest_complete_run_is_the_default(tmp_path: Path) -> None:
    write_run(tmp_path / "20260101-000000-a-x")
    newest = write_run(tmp_path / "20260102-000000-a-x")
    write_run(tmp_path / "20260103-000000-a-x", complete=False)
    (tmp_path / "20260104-000000-a-x").mkdir()
    assert run.newest(tmp_path) == newest


def test_no_run_at_all_says_how_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run.newest(tmp_path / "tracelens-runs")
    assert "tracelens profile" in caught.value.hint


def test_two_runs_of_one_second_get_two_folders(tmp_path: Path) -> None:
    now = datetime(2026, 11, 21, 5, 45, 0, tzinfo=UTC)
    first, second = (run.new_folder("dir/my train.py", tmp_path, now) for _ in range(2))
    assert first != second
    assert first.name.startswith("20261121-054500-my_train-")


def test_writing_keeps_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.txt"
    target.write_bytes(b"old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        run.write_bytes(target, b"new")
    assert target.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_writing_keeps_the_permissions(tmp_path: Path) -> None:
    target = tmp_path / "run.sh"
    target.write_bytes(b"old")
    target.chmod(0o750)
    run.write_bytes(target, b"new")
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o750
