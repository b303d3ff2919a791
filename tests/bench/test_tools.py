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

from tests.bench import commands, curves, launches, longer
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


def test_a_table_has_the_least_time_and_the_largest_peak_of_each_version() -> None:
    rows = [
        {"command": "analyze", "version": version, "cpu_s": cpu, "peak_mb": peak}
        for version, cpu, peak in (("here", 2.0, 90.0), ("here", 1.0, 80.0), ("before", 3.0, 70.0))
    ]
    last = commands.table(rows, ["here", "before"]).splitlines()[-1]
    assert last == "| analyze | 1.00 s (median 1.50) | 90 MB | 3.00 s (median 3.00) | 70 MB |"


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
