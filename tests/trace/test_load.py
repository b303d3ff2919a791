"""Loading traces of every generation: columns, exact times, and the same answer for any layout of the same events."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builders import BASE_NS, loop
from tests.support.loading import QUIET, TEXT, loaded, names, row, written
from tracelens.cli import main
from tracelens.model import Trace
from tracelens.trace import chrome, timeline
from tracelens.trace.json_numbers import nanoseconds

# ----------------------------------------------------------------------------------------------------- generations


def test_columns_are_ordered_and_start_at_zero(tmp_path: Path) -> None:
    trace = loop().trace()
    assert len(trace) == len(loop().rows)
    assert trace.columns["start_ns"][0] == 0 and (np.diff(trace.columns["start_ns"]) >= 0).all()
    assert trace.base_unix_ns == BASE_NS
    assert trace.device == "NVIDIA H200"
    assert {"gpu", "runtime", "correlation", "steps", "sync_events"} <= trace.signals
    assert not trace.dropped and not trace.warnings
    assert list(trace.frame["name"].astype(str)[:2]) == names(trace)[:2]


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
def test_any_layout_of_the_same_events_is_the_same_trace(tmp_path: Path, indent: int | None) -> None:
    document = loop().document()
    base = loaded(tmp_path, document)
    separators = (",", ":") if indent is None else None
    other = loaded(tmp_path, json.dumps(document, indent=indent, separators=separators))
    assert all((base.columns[key] == other.columns[key]).all() for key in base.columns)


def test_a_list_at_the_top_level(tmp_path: Path) -> None:
    trace = loaded(tmp_path, [row(), row(ts=20)])
    assert len(trace) == 2 and trace.base_unix_ns is None and trace.rank is None


def test_keys_after_the_events_and_before_them_are_metadata(tmp_path: Path) -> None:
    devices = [{"id": 0, "name": "A"}, {"id": 1, "name": "B"}]  # looks like events, and is not
    document = {"schemaVersion": 1, "traceEvents": [row()], "deviceProperties": devices, "distributedInfo": {"rank": 3}}
    trace = loaded(tmp_path, document)
    assert (len(trace), trace.rank) == (1, 3)
    assert trace.metadata == {"schemaVersion": 1, "deviceProperties": devices, "distributedInfo": {"rank": 3}}
    assert not trace.warnings


def test_the_names_of_2021(tmp_path: Path) -> None:
    kernel = row(cat="Kernel", name="gemm", tid="stream 7", args={"stream": 7, "external id": 5, "correlation": 9})
    copy = row(cat="Memcpy", name="Memcpy HtoD (Pageable -> Device)", args={"stream": 7, "Bytes": 64, "device": 0})
    call = row(cat="Runtime", name="cudaLaunchKernel", tid="1441273664", args={"correlation": 9})
    operator = row(cat="Operator", pid=0, tid="PyTorch Profiler")
    trace = loaded(tmp_path, [kernel, copy, call, operator])
    assert set(trace.categories) == {"kernel", "gpu_memcpy", "cuda_runtime", "cpu_op"}
    assert sorted(trace.columns["tid"]) == [-1, 1, 7, 1441273664]
    assert 64 in trace.columns["bytes"] and 5 in trace.columns["external_id"]


def test_numbers_that_are_text_or_too_large(tmp_path: Path) -> None:
    call = row(cat="cuda_runtime", args={"stream": "0x0", "bytes": "2048", "correlation": 7})
    none = row(cat="cuda_sync", ts=30, args={"stream": 4294967295, "correlation": 8, "wait_on_stream": -1})
    huge = row(cat="kernel", ts=50, args={"stream": 10**30, "correlation": 2**70, "device": None})
    columns = loaded(tmp_path, [call, none, huge]).columns
    assert list(columns["stream"]) == [0, -1, -1]
    assert list(columns["bytes"]) == [2048, -1, -1]
    assert list(columns["correlation"]) == [7, 8, -1]


def test_the_stream_of_a_cpu_row_is_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, [row(name="triton_poi_0", args={"stream": 7})]).columns["stream"][0] == -1


def test_the_rank_is_stated_or_unknown(tmp_path: Path) -> None:
    stated = {"traceEvents": [row()], "distributedInfo": {"rank": 2, "world_size": 8}}
    trace = chrome.load(written(tmp_path, stated, "rank-5.json"))
    assert (trace.rank, trace.world_size) == (2, 8)
    cases = {
        "rank-5.20240101.77.pt.trace.json": 5,
        "rank12_trace.json": 12,
        "worker_rank_0.171.pt.trace.json": 0,
        "profile_3.json": 3,
        "host_4711.1712.pt.trace.json": None,
        "frank5.json": None,
    }
    for name, rank in cases.items():
        assert chrome.load(written(tmp_path, [row()], name)).rank == rank, name
    (tmp_path / "rank7").mkdir()
    assert chrome.load(written(tmp_path / "rank7", [row()])).rank == 7


# ----------------------------------------------------------------------------------------------------- exact times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123.456", 123_456),
        ("0.0005", 1),
        ("4379767678416.982", 4_379_767_678_416_982),
        ("7948799999999.999", 7_948_799_999_999_999),
        ("1712195495820905.2", 1_712_195_495_820_905_200),
        ("1712195495820905.047", 1_712_195_495_820_905_047),
        ("1610366392344552", 1_610_366_392_344_552_000),
        ("1.5e3", 1_500_000),
        ('"1712195495820905.047"', 1_712_195_495_820_905_047),
    ],
)
def test_timestamps_are_as_exact_as_the_text(tmp_path: Path, text: str, expected: int) -> None:
    event = json.dumps(row(ts="?", dur=1.001)).replace('"?"', text)
    trace = loaded(tmp_path, f"[{event}]")
    assert trace.origin_ns == expected
    assert trace.columns["end_ns"][0] == 1001


@given(st.lists(st.tuples(st.integers(0, 4 * 10**15), st.integers(0, 999)), min_size=1))
@settings(max_examples=50)
def test_text_of_any_microsecond_is_read_exactly(times: list[tuple[int, int]]) -> None:
    found, known = nanoseconds([f"{us}.{ns:03d}" for us, ns in times])
    assert known.all() and list(found) == [us * 1000 + ns for us, ns in times]


def test_times_beyond_any_clock_are_unknown() -> None:
    _, known = nanoseconds(
        ["9223372036854776.0", "99999999999999999999", "-5", "5", "1e999999999999999999", "1e-999999"]
    )
    assert list(known) == [False, False, True, True, False, True]


def test_the_unix_clock_is_known_with_and_without_a_base(tmp_path: Path) -> None:
    based = loaded(tmp_path, {"baseTimeNanoseconds": BASE_NS, "traceEvents": [row(ts=2.5)]})
    assert based.base_unix_ns == BASE_NS + 2500
    assert loaded(tmp_path, [row(ts=1712195495820905)]).base_unix_ns == 1_712_195_495_820_905_000
    assert loaded(tmp_path, [row(ts=2.5)]).base_unix_ns is None


# -------------------------------------------------------------------------------------------------- begins and ends


def halves(*events: tuple[str, str, float, int]) -> list[dict[str, Any]]:
    return [
        {"ph": phase, "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": ts} for phase, name, ts, tid in events
    ]


def spans(trace: Trace) -> list[tuple[str, int, int, int]]:
    columns = trace.columns
    return list(zip(names(trace), columns["start_ns"], columns["end_ns"], columns["tid"], strict=True))


def test_begins_and_ends_become_complete_events_per_thread(tmp_path: Path) -> None:
    rows = halves(
        ("B", "outer", 10, 1), ("B", "other", 11, 2), ("B", "inner", 12, 1), ("E", "", 15, 1), ("B", "inner", 15, 1),
        ("E", "", 18, 1), ("E", "", 19, 2), ("E", "outer", 20, 1),
    )  # fmt: skip
    trace = loaded(tmp_path, rows)
    assert spans(trace) == [
        ("outer", 0, 10_000, 1),
        ("other", 1_000, 9_000, 2),
        ("inner", 2_000, 5_000, 1),
        ("inner", 5_000, 8_000, 1),
    ]
    assert not trace.dropped and not trace.warnings


def test_begins_keep_their_arguments_and_stand_beside_complete_events(tmp_path: Path) -> None:
    begin, end = halves(("B", "gemm", 10, 7), ("E", "gemm", 30, 7))
    begin |= {"cat": "kernel", "args": {"stream": 7, "correlation": 5}}
    trace = loaded(tmp_path, [row(cat="cuda_runtime", ts=5, args={"correlation": 5}), begin, end])
    assert names(trace) == ["aten::mm", "gemm"] and "correlation" in trace.signals
    assert list(trace.columns["stream"]) == [-1, 7] and trace.columns["end_ns"][1] == 25_000


def test_halves_out_of_order_and_without_their_other_half(tmp_path: Path) -> None:
    rows = halves(("E", "", 30, 1), ("E", "lost", 5, 1), ("B", "a", 10, 1), ("B", "cut off", 40, 1), ("B", "b", 20, 1))
    trace = loaded(tmp_path, [*rows, row(ts=0)])
    assert spans(trace) == [("aten::mm", 0, 5_000, 1), ("b", 20_000, 30_000, 1)]
    assert trace.dropped == {"begin or end without duration": 3}
    assert trace.warnings == ("left out: 3 x begin or end without duration",)


@given(st.lists(st.tuples(st.sampled_from("BE"), st.integers(0, 8), st.integers(1, 2)), max_size=14))
@QUIET
def test_pairs_are_those_of_a_stack(tmp_path: Path, found: list[tuple[str, int, int]]) -> None:
    rows = halves(*((phase, f"event {place}", ts, tid) for place, (phase, ts, tid) in enumerate(found)))
    stacks: dict[int, list[dict[str, Any]]] = {}
    expected = []
    for one in sorted(rows, key=lambda each: each["ts"]):
        stack = stacks.setdefault(one["tid"], [])
        if one["ph"] == "B":
            stack.append(one)
        elif stack:
            begin = stack.pop()
            expected.append((begin["name"], begin["ts"] * 1000, one["ts"] * 1000, one["tid"]))
    trace = loaded(tmp_path, [row(ts=0, tid=9), *rows])
    assert sorted(spans(trace))[1:] == sorted(expected)
    assert trace.dropped.get("begin or end without duration", 0) == len(rows) - 2 * len(expected)


# ------------------------------------------------------------------------------------------------------ generations


@pytest.mark.parametrize("phases", ["XsfiM", "X?é", ["X", 5, None], ["X", ""]])
def test_other_phases_are_no_events_and_no_damage(tmp_path: Path, phases: Any) -> None:
    trace = loaded(tmp_path, [row(ph=phase, ts=ts) for ts, phase in enumerate(phases)])
    assert len(trace) == 1 and not trace.dropped


def test_events_in_any_order_are_the_same_trace(tmp_path: Path) -> None:
    document = loop().document()
    base = loaded(tmp_path, document)
    document["traceEvents"].reverse()
    other = loaded(tmp_path, document)
    assert Counter(spans(base)) == Counter(spans(other))
    assert timeline.build(base).syncs().equals(timeline.build(other).syncs())


@pytest.mark.parametrize("late", [0, 70, 700])
def test_one_time_with_a_fraction_among_many_without_is_exact(tmp_path: Path, late: int) -> None:
    rows = [row(ts=1_712_195_495_820_000 + at) for at in range(800)]
    text = json.dumps(rows).replace(f'"ts": {1_712_195_495_820_000 + late},', '"ts": 1712195495820900.047,')
    trace = loaded(tmp_path, text)
    assert trace.origin_ns + trace.columns["start_ns"][-1] == 1_712_195_495_820_900_047


@pytest.mark.parametrize("nothing", ["bytes", "Bytes", "size"])
def test_bytes_in_every_spelling(tmp_path: Path, nothing: str) -> None:
    trace = loaded(tmp_path, [row(cat="gpu_memcpy", args={nothing: 64, "external id": 3}), row(ts=30)])
    assert list(trace.columns["bytes"]) == [64, -1] and list(trace.columns["external_id"]) == [3, -1]


def test_arguments_that_are_null_are_unknown(tmp_path: Path) -> None:
    rows = [
        row(args=None),
        row(ts=20, cat="kernel", args={"stream": None, "correlation": None, "cuda_sync_kind": None}),
    ]
    trace = loaded(tmp_path, rows)
    assert len(trace) == 2 and not trace.dropped
    assert set(trace.columns["stream"]) == set(trace.columns["correlation"]) == {-1}


@pytest.mark.parametrize("vendor", ["xpu", "mtia", "privateuse1", "cuda", "hip"])
def test_runtimes_of_all_vendors_are_one(tmp_path: Path, vendor: str) -> None:
    call = row(cat=f"{vendor}_runtime", name="launch", args={"correlation": 4})
    kernel = row(cat="kernel", name="gemm", pid=0, tid=7, ts=20, args={"correlation": 4, "stream": 7, "device": 0})
    trace = loaded(tmp_path, [call, kernel])
    assert set(trace.categories) == {"cuda_runtime", "kernel"} and {"gpu", "runtime", "correlation"} <= trace.signals


@pytest.mark.parametrize(
    ("listed", "device", "name"),
    [
        ({0: "MI300X", 1: "MI210"}, 1, "MI210"),
        ({0: "MI300X", 1: "MI300X"}, 4, "MI300X"),  # ROCm: the CPUs have ids, too
        ({0: "MI300X", 1: "MI210"}, 4, None),
        ({0: ""}, 0, None),
        ({}, 0, None),
    ],
)
def test_the_device_is_named_where_that_is_certain(
    tmp_path: Path, listed: dict[int, str], device: int, name: str | None
) -> None:
    kernel = row(cat="kernel", name="gemm", pid=device, tid=7, args={"stream": 7, "device": device})
    properties = [{"id": key, "name": text} for key, text in listed.items()]
    assert loaded(tmp_path, {"deviceProperties": properties, "traceEvents": [kernel]}).device == name


def test_a_trace_of_the_cpu_alone_loads(tmp_path: Path) -> None:
    trace = loaded(tmp_path, [row(), row(cat="python_function", name="train.py(3): main", ts=20)])
    assert trace.device is None and "gpu" not in trace.signals and "python_stacks" in trace.signals
    assert timeline.build(trace).step_source == "none"


def test_a_very_long_number_costs_no_table_of_its_width(tmp_path: Path) -> None:
    rows = json.dumps([row(ts=f"{at}.5") for at in range(2000)]).replace('"7.5"', '"' + "7" * 500_000 + '"')
    trace = loaded(tmp_path, rows)
    assert len(trace) == 1999 and trace.dropped == {"no timestamp": 1}


def test_the_same_work_twice_counts_once(tmp_path: Path) -> None:
    kernel = row(cat="kernel", args={"correlation": 4, "stream": 7})
    trace = loaded(tmp_path, [kernel, kernel, row(), row()])
    assert len(trace) == 3 and trace.dropped == {"duplicate event": 1}


def test_unfinished_records_at_time_zero_are_left_out(tmp_path: Path) -> None:
    trace = loaded(tmp_path, [row(ts=0, dur=0), row(ts=0, dur=0), row(ts=5_000_000_000)])
    assert len(trace) == 1 and trace.dropped == {"unfinished record at time 0": 2}
    assert len(loaded(tmp_path, [row(ts=0, dur=0), row(ts=5)])) == 2


def test_max_bytes_keeps_the_events_up_to_there(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    trace = chrome.load(path, max_bytes=len(TEXT) // 2)
    assert 0 < len(trace) < len(loop().rows)
    assert any("first" in warning for warning in trace.warnings)


def test_the_command_line_bounds_what_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, gzip.compress(b'{"a": "' + b" " * 30_000_000), "bomb.json.gz")
    assert main(["analyze", str(path), "--max-bytes", "100000"]) == 4
    assert "only the first 100000 bytes were read" in capsys.readouterr().err
    assert main(["analyze", str(written(tmp_path, TEXT)), "--max-bytes", str(len(TEXT) // 2)]) == 0
    assert "only the first" in capsys.readouterr().err


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": io.BytesIO(gzip.compress(TEXT))}))
    assert len(chrome.load("-")) == len(loop().rows)
