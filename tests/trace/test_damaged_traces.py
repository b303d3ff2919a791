"""Damaged traces: what is whole is kept, what is not is counted, and nothing but our own errors is raised."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import Events, loop
from tests.support.loading import FIRST, QUIET, TEXT, complete, loaded, names, row, written
from tracelens.errors import InputError, TracelensError
from tracelens.trace import chrome, timeline


@given(st.integers(0, len(TEXT)))
@QUIET
def test_cut_anywhere_a_trace_keeps_its_complete_events(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path, TEXT[:cut])
    expected = complete(TEXT[FIRST:cut]) if cut > FIRST else 0
    try:
        trace = chrome.load(path)
    except InputError as error:
        assert expected == 0 and error.exit_code == 4 and error.hint
    else:
        assert len(trace) == expected
        if cut < TEXT.rindex(b"]"):
            assert any("ends early" in warning for warning in trace.warnings)


@pytest.mark.parametrize(
    ("written_as", "read_as"),
    [
        (b'say "hi"', 'say "hi"'),
        (b'"', '"'),
        (b"a\tb\x01c", "a b c"),
        (b"caf\xe9", "caf�"),
        (b"C:\\new\\qux", None),
        (b"\\ud800", None),
        (b"\\u001b[31mred", " [31mred"),
    ],
)
def test_names_that_break_the_json(tmp_path: Path, written_as: bytes, read_as: str | None) -> None:
    text = json.dumps([row(name="before"), row(name="@@", ts=20), row(name="after", ts=30)], indent=1).encode()
    trace = loaded(tmp_path, text.replace(b"@@", written_as))
    assert (names(trace)[0], names(trace)[-1], len(trace)) == ("before", "after", 3)
    assert read_as is None or names(trace)[1] == read_as
    assert not trace.dropped
    assert all(name.isprintable() and name.encode() for name in names(trace))


@pytest.mark.parametrize("field", ["cat", "ph", "tid", "unknown"])
def test_half_a_character_in_any_field_costs_no_event(tmp_path: Path, field: str) -> None:
    odd = row(ts=20, args={"correlation": 7, "k": 1}, **{field: "@"})
    text = json.dumps([row(), odd, row(ts=30)]).replace("@", "\\ud800").replace('"k"', '"\\udfff"')
    trace = loaded(tmp_path, text)
    assert len(trace) == (2 if field == "ph" else 3)
    assert (7 in trace.columns["correlation"]) == (field != "ph")


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "inf", "N/A", "nan"])
def test_values_that_are_no_json(tmp_path: Path, value: str) -> None:
    text = json.dumps([row(), row(ts=20, args={"est. achieved occupancy %": "@"}), row(ts=30)]).replace('"@"', value)
    assert len(loaded(tmp_path, text)) == 3
    bad_time = json.dumps([row(), row(ts="@"), row(ts=30)]).replace('"@"', value)
    trace = loaded(tmp_path, bad_time)
    assert len(trace) == 2 and trace.dropped == {"no timestamp": 1}


def test_what_has_no_usable_time_is_counted(tmp_path: Path) -> None:
    missing = {key: value for key, value in row().items() if key != "dur"}
    odd = [row(dur=-1), missing, row(ts=None), row(ts=1e300), {"ph": "B", "ts": 1}, 7, row(args=[1]), row(args="x")]
    trace = loaded(tmp_path, [row(), *odd])
    assert len(trace) == 3
    assert trace.dropped == {
        "negative duration": 1,
        "no duration": 1,
        "no timestamp": 2,
        "begin or end without duration": 1,
        "not an event": 1,
    }


def test_arguments_that_look_like_events_are_not_cut(tmp_path: Path) -> None:
    nested = row(ts=20, args={"list": [{"name": "a", "ts": 1}, {"name": "b"}], "correlation": 3})
    text = json.dumps([row(), nested, row(ts=30)])
    assert len(loaded(tmp_path, text)) == 3
    broken = text.replace('"aten::mm", "pid": 1, "tid": 1, "ts": 30', '"a\\qb", "pid": 1, "tid": 1, "ts": 30')
    trace = loaded(tmp_path, broken)
    assert len(trace) == 3 and 3 in trace.columns["correlation"] and not trace.dropped


def test_a_damaged_event_costs_only_its_step(tmp_path: Path) -> None:
    """Not the step after it: each step waits for its own work."""
    events = loop(60)
    victim = next(index for index, entry in enumerate(events.rows) if entry["name"] == "gemm" and index > 200)
    without = Events(rows=[entry for index, entry in enumerate(events.rows) if index != victim], top=events.top)
    events.rows[victim] = {**events.rows[victim], "name": "DAMAGED"}
    text = events.write(tmp_path / "a.json").read_bytes().replace(b'"name": "DAMAGED"', b'"name": {[')
    damaged, intact = loaded(tmp_path, text), without.trace()
    assert damaged.dropped == {"damaged event": 1} and damaged.warnings
    left, right = timeline.build(damaged), timeline.build(intact)
    lost = int(right.calls()["step"][right.calls()["name"].eq("cudaLaunchKernel") & right.calls()["op"].eq(-1)].iloc[0])
    judged = left.steps()["kept"]
    assert list(judged.index[~judged]) == [lost]
    for table in ("idle_gaps", "syncs"):
        expected, actual = (
            rows[judged.to_numpy()[rows["step"]]] for rows in (getattr(right, table)(), getattr(left, table)())
        )
        columns = [name for name in expected.columns if name not in ("wait", "gpu_idle_ns")]
        assert actual[columns].reset_index(drop=True).equals(expected[columns].reset_index(drop=True))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, len(TEXT) - 1), st.binary(max_size=4), st.integers(0, 30)), max_size=8))
@QUIET
def test_no_damage_raises_anything_but_our_errors(tmp_path: Path, edits: list[tuple[int, bytes, int]]) -> None:
    data = bytearray(TEXT)
    for position, replacement, length in edits:
        data[position : position + length] = replacement
    try:
        trace = chrome.load(written(tmp_path, bytes(data)))
    except TracelensError as error:
        assert error.exit_code == 4
    else:
        timeline.build(trace)


@pytest.mark.slow
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
@QUIET
def test_fields_of_any_type_raise_nothing_else(tmp_path: Path, value: Any) -> None:
    events = [row(**{key: value}) for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")]
    events += [row(cat="kernel", args={key: value}) for key in ("stream", "device", "correlation", "bytes")]
    document = {"distributedInfo": value, "baseTimeNanoseconds": value, "deviceProperties": value}
    timeline.build(loaded(tmp_path, {**document, "traceEvents": [row(), *events]}))


@pytest.mark.parametrize("text", ['[{"name":' + "[" * 200_000, '{"traceEvents":[' + '{"a":' * 200_000])
def test_deep_nesting_is_damage(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        loaded(tmp_path, text)


# ----------------------------------------------------------------------------------------------- what is no trace


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"hello", "is not JSON"),
        (b"\x00\x01\x02", "is not JSON"),
        (b'{"a": 1}', "traceEvents"),
        (b'{"schemaVersion": 1, "deviceProp', "ends before its first event"),
        (b"[]", "no complete timed event"),
        (b'{"traceEvents": []}', "no complete timed event"),
        (b'{"traceEvents": [{"ph": "M", "name": "process_name"}]}', "no complete timed event"),
    ],
)
def test_files_that_are_no_trace(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        loaded(tmp_path, data)
    assert caught.value.exit_code == 4 and caught.value.hint and "trace.json" in caught.value.message


@pytest.mark.parametrize("flood", [b" ", b", ", b"a", b"[", b"{", b'"', b"}", b"} ,", b'\\"', b"{},", b"1,"])
def test_a_flood_of_the_same_is_read_in_linear_time(tmp_path: Path, flood: bytes) -> None:
    path = written(tmp_path, b'{"traceEvents": [' + flood * (500_000 // len(flood)))
    began = time.process_time()
    with pytest.raises(InputError):
        chrome.load(path)
    assert time.process_time() - began < 20  # it takes less than one; its square, minutes
