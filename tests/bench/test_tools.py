"""The benchmark's own tools: a longer trace is the same training for longer, and a measurement measures."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench import against_hta, commands, curves, launches, longer
from tests.bench.run import summary, table, targets
from tests.support.builders import loop
from tracelens import pipeline
from tracelens.trace import chrome, timeline

ONE = Path(__file__).with_name("one.py")


def packed(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "short.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document, indent=1).encode()))
    return path


def test_a_longer_trace_goes_on_where_the_short_one_ended(tmp_path: Path) -> None:
    document = loop(first=3).document()
    document["traceEvents"].append({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "python"}})
    target = tmp_path / "long.json.gz"
    raw = longer.write(packed(tmp_path, document), target, 4)
    text = gzip.decompress(target.read_bytes())
    assert len(text) == raw and text.count(b"process_name") == 1
    short, long = (timeline.build(chrome.load(path)) for path in (tmp_path / "short.json.gz", target))
    assert len(long.trace) == 4 * len(short.trace) and not long.trace.dropped and not long.trace.warnings
    assert list(long.steps()["number"]) == list(range(3, 15))
    assert long.steps()["start_ns"].is_monotonic_increasing
    ids = long.calls()["correlation"].to_numpy()
    assert len(np.unique(ids)) == len(ids) and (long.ops()["call"] >= 0).all()
    assert len(long.syncs()) == 4 * len(short.syncs())
    assert long.syncs()["wait_ns"].sum() == 4 * short.syncs()["wait_ns"].sum()


def test_once_is_the_same_trace(tmp_path: Path) -> None:
    source = packed(tmp_path, loop(first=3).document())
    longer.write(source, tmp_path / "once.json", 1)
    once, before = chrome.load(tmp_path / "once.json"), chrome.load(source)
    assert all((once.columns[key] == before.columns[key]).all() for key in before.columns)


@pytest.mark.programs
@pytest.mark.parametrize("reader", ["tracelens", "json"])
def test_a_measurement_has_its_numbers(tmp_path: Path, reader: str) -> None:
    path = packed(tmp_path, loop(first=3).document())
    command = [sys.executable, str(ONE), reader, str(path)]
    row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert row["cpu_s"] > 0 and 0 < row["wall_s"] < 60 and 5 < row["peak_mb"] < 1000
    assert row["events"] == len(loop(first=3).rows)


def test_targets_are_met_or_missed_by_the_median() -> None:
    def rows(times: int, reader: str, *walls: float) -> list[dict[str, Any]]:
        raw = times * 50_000_000
        return [
            {"times": times, "raw_bytes": raw, "reader": reader, "wall_s": one, "cpu_s": one, "peak_mb": 10.0 * times}
            for one in walls
        ]

    short = [*rows(1, "tracelens", 1, 1, 9), *rows(1, "json", 2), *rows(1, "hta", 11)]
    long = [*rows(10, "tracelens", 10), *rows(10, "json", 9), *rows(10, "hta", 130)]
    broken = {"times": 10, "raw_bytes": 1, "reader": "hta", "failed": "exit 137"}
    found = summary([*short, *long, broken])
    words = [line.rpartition(", ")[2] for line in targets(found)]
    assert words == ["missed", "met", "met", "missed", "met", "met"]
    assert table(found).count("\n") == 1 + len(found)


@pytest.mark.programs
def test_a_whole_command_has_its_cpu_time_and_its_peak() -> None:
    row = commands.measured([sys.executable, "-c", "sum(range(1_000_000)); held = bytearray(50_000_000)"])
    assert 0 < row["cpu_s"] < 60 and row["wall_s"] > 0
    assert 50 < row["peak_mb"] < 500
    with pytest.raises(SystemExit, match="failed"):
        commands.measured([sys.executable, "-c", "raise SystemExit(3)"])


def timed(
    command: str, turn: int, wall: float, cpu: float, peak: float = 50.0, version: str = "here"
) -> dict[str, Any]:
    row = {"command": command, "version": version, "turn": turn, "wall_s": wall, "cpu_s": cpu, "peak_mb": peak}
    return {**row, "trace": False}


def test_a_command_is_measured_by_the_import_of_torch_in_its_own_turn() -> None:
    """The second turn was three times as slow for all."""
    rows = [
        *(timed(commands.TORCH, turn, slow * 2.0, slow * 1.0) for turn, slow in ((0, 1), (1, 3))),
        *(timed("analyze gpu_bound", turn, slow * 0.8, slow * 0.6, 80 + turn) for turn, slow in ((0, 1), (1, 3))),
        *(timed("recommend gpu_bound", turn, slow * 1.8, slow * 1.5) for turn, slow in ((0, 1), (1, 3))),
        timed(commands.MANY, 0, 4.5, 6.0),
    ]
    assert (
        commands.table(rows, ["here"]).splitlines()[3]
        == "| analyze gpu_bound | 1.60 s | 0.40 | 1.20 s | 0.60 | 81 MB |"
    )
    assert commands.verdicts(rows) == [
        "- analyze gpu_bound over import torch, wall, at most 0.5: **0.40**, met",
        "- recommend gpu_bound over import torch, wall, at most 0.8: **0.90**, missed",
        "- recommend 12 x 10,000 launches, wall seconds, at most 5: **4.50**, met",
    ]


def test_a_version_is_measured_by_its_own_import_of_torch() -> None:
    rows = [
        timed(name, 0, wall, wall, version=version)
        for version, torch, ours in (("here", 1.0, 0.5), ("before", 2.0, 1.5))
        for name, wall in ((commands.TORCH, torch), ("analyze gpu_bound", ours))
    ]
    last = commands.table(rows, ["here", "before"]).splitlines()[-1]
    assert [cell.strip() for cell in last.split("|")[2:4]] == ["0.50 s", "0.50"]
    assert [cell.strip() for cell in last.split("|")[7:9]] == ["1.50 s", "0.75"]


def test_a_long_trace_is_held_against_htas_and_its_own_size() -> None:
    rows = [
        {"process": name, "turn": 0, "wall_s": wall, "cpu_s": cpu, "peak_mb": peak}
        for name, wall, cpu, peak in (
            (against_hta.ONCE, 1.0, 1.0, 60.0), (against_hta.LONG, 2.0, 4.0, 70.0), (against_hta.HTA, 44.0, 44.0, 900.0)
        )
    ]  # fmt: skip
    found = against_hta.verdicts(rows, {against_hta.LONG: 120.0}, 200_000_000, 10)
    assert [line.rpartition("**")[0].rpartition("**")[2] for line in found] == ["22.00", "11.00", "0.60", "2.00"]
    assert [line.rpartition(", ")[2] for line in found] == ["met", "missed", "missed", "met"]
    last = against_hta.table(rows, {against_hta.LONG: 120.0}).splitlines()[-2]
    assert last == "| analyze, the long trace | 2.00 s | 4.00 s | 70 MB | 120 MB |"


@pytest.mark.programs
def test_memory_of_all_processes_counts_those_that_were_started() -> None:
    hold = 'a = bytearray(b"x") * 40_000_000; '
    code = f"{hold} import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    assert 80 < against_hta.together_mb([sys.executable, "-c", code, f"{hold} import time; time.sleep(0.3)"]) < 160


def test_a_run_of_many_launches_is_a_run(tmp_path: Path) -> None:
    opened = pipeline.open_inputs((launches.write(tmp_path / "project", steps=4, launches=30),))
    assert opened.run is not None and opened.recordings[0] is not None
    assert opened.recordings[0].clock.unprofiled_ns == (30 * 51_000,) * 20


def test_a_curve_says_how_often_more_than_at_its_first_point() -> None:
    rows: list[dict[str, object]] = [
        {"curve": "analyze", "size": size, "cpu_s": cpu, "peak_mb": 90.0}
        for size, cpu in ((3, 1.0), (12, 2.5), (12, 2.0))
    ]
    assert curves.table(rows).splitlines()[2:] == [
        "| analyze | 3 | 1.00 s | 1 x the size: 1.0 x | 90 MB |",
        "| analyze | 12 | 2.00 s | 4 x the size: 2.0 x | 90 MB |",
    ]
