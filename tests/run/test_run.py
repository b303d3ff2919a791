"""The Run folder: what is written can be read, what is damaged is said in one sentence."""

from __future__ import annotations

import json
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tracelens import run
from tracelens.errors import InputError, UsageError
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
        (json.dumps(description(ranks=7)), "ranks should be a list, but is 7"),
        (json.dumps(description(ranks=[None])), r"ranks\[0\] is null"),
        (json.dumps(description(command=[])), "command is empty"),
        (json.dumps(description(environment=True)), "environment should be an object, but is true"),
        (json.dumps(description(script={"path": 7})), r"script\.path should be text, but is 7"),
        (json.dumps(description(ranks=[{"rank": 0, "memory": True}])), r"ranks\[0\]\.memory should be an object"),
        (json.dumps(description(ranks=[{"rank": 0, "loaders": [None]}])), r"loaders\[0\] is null"),
        (json.dumps(description(ranks=[{"rank": 0, "clock": {"unprofiled_ns": [10**30]}}])), "a whole number"),
        (json.dumps(description(ranks=[{"rank": 0, "clock": {"unprofiled_mean_ns": "x"}}])), "a number"),
        (json.dumps(description(ranks=[{"rank": 0, "sources": "x" * 300}])), "not a run description"),
        ('{"schema_version": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_a_damaged_description_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        run.read(tmp_path)
    assert caught.value.hint and "\n" not in caught.value.message


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
    assert re.fullmatch("20261121-054500-my_train-[0-9a-f]{4}", first.name)


def test_an_id_that_is_taken_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, drawn = datetime(2026, 11, 21, 5, 45, 0, tzinfo=UTC), iter([b"\x3f\x9a", b"\x3f\x9a", b"\x00\x01"])
    monkeypatch.setattr(os, "urandom", lambda size: next(drawn))
    names = [run.new_folder("train.py", tmp_path, now).name for _ in range(2)]
    assert names == ["20261121-054500-train-3f9a", "20261121-054500-train-0001"]


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


@pytest.mark.parametrize("mark", [{"start_unix_ns": 10**30}, {"line": "x"}, {"path": 5}, {"function": []}])
def test_damaged_sources_are_one_error(tmp_path: Path, mark: dict[str, Any]) -> None:
    folder = write_run(tmp_path / "a")
    whole = {"start_unix_ns": 1, "end_unix_ns": 2, "thread": 3, "call": "x", "path": "a.py", "line": 1, "function": "f"}
    run.write_json(folder / "rank0" / "sources.json", {"marks": [whole, whole | mark]})
    with pytest.raises(InputError, match=r"sources\.json\.marks\[1\]"):
        run.read(folder)


def test_samples_that_are_no_samples_are_left_out(tmp_path: Path) -> None:
    good = {"unix_ns": 5, "gpus": [{"utilization": 40}], "cpu_percent": 1.5}
    rows = [good, [], None, {"unix_ns": "x"}, {"unix_ns": 1, "gpus": "x"}, {"unix_ns": 1, "gpus": [3]}, {"gpus": None}]
    lines = [json.dumps(row) for row in rows] + ["[" * 100_000, '{"unix_ns": 1e999}', '{"unix_ns": 1']
    (tmp_path / run.MONITOR_FILE).write_text("\n".join(lines))
    assert run.samples(tmp_path) == (good,)


def test_words_that_are_no_utf8_are_written_and_read_back(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", command=["python", os.fsdecode(b"n\xff.py")])
    (folder / "run.json").read_text(encoding="utf-8")
    assert run.read(folder).command == ("python", os.fsdecode(b"n\xff.py"))


def test_a_path_that_cannot_be_looked_at_is_no_run(tmp_path: Path) -> None:
    assert not run.is_run(tmp_path / ("x" * 300))


@pytest.mark.parametrize("place", ["folder", "file/x.html", "x" * 300])
def test_what_is_in_the_way_of_an_output_is_said(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="cannot be written"):
        run.write_output(tmp_path / place, b"page")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        run.write_output(pipe, b"page")
        assert reader.read() == b"page"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_step_of_no_length_was_not_measured(tmp_path: Path) -> None:
    clock = {"unprofiled_ns": [0, -5, 7], "unprofiled_mean_ns": 0, "profiled_ns": [0]}
    (tmp_path / "run.json").write_text(json.dumps(description(ranks=[{"rank": 0, "clock": clock}])))
    found = run.read(tmp_path).recordings[0].clock
    assert (found.unprofiled_ns, found.unprofiled_mean_ns, found.profiled_ns) == ((7,), None, ())
