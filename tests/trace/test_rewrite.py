"""A trace as a document: as it is, or as much of it as is whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import Machine
from tracelens.errors import InputError
from tracelens.trace import chrome
from tracelens.trace.json_document import document


def built() -> dict[str, Any]:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            machine.launch("gemm", 100.25)
            machine.item()
    extra = [{"ph": "s", "id": 3, "ts": 1.5}, {"ph": "M", "name": "process_name", "args": {"name": "\x1b é 🜁"}}]
    found = machine.events.document()
    return {**found, "traceEvents": [*found["traceEvents"], *extra], "traceName": "after the events"}


def given(folder: Path, data: bytes, name: str = "t.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("indent", [None, 1])
def test_a_good_file_is_what_json_reads(tmp_path: Path, indent: int | None) -> None:
    found = document(given(tmp_path, gzip.compress(json.dumps(built(), indent=indent).encode())))
    assert found.content == built() and not found.warnings


def test_a_bare_list_becomes_an_object(tmp_path: Path) -> None:
    events = built()["traceEvents"]
    assert document(given(tmp_path, json.dumps(events).encode())).content == {"traceEvents": events}


def test_a_cut_file_keeps_its_intact_events(tmp_path: Path) -> None:
    whole = built()
    text = json.dumps({key: whole[key] for key in ("schemaVersion", "traceEvents")}, indent=1).encode()
    found = document(given(tmp_path, text[: len(text) * 2 // 3]))
    kept = found.content["traceEvents"]
    assert 3 < len(kept) < len(whole["traceEvents"]) and kept == whole["traceEvents"][: len(kept)]
    assert any("ends early" in warning for warning in found.warnings)
    again = chrome.load(given(tmp_path, json.dumps(found.content).encode(), "again.json"))
    assert not again.dropped and not again.warnings


def test_mended_events_keep_their_numbers_and_can_be_written(tmp_path: Path) -> None:
    rows = [{"ph": "X", "name": "@", "ts": 1712195495820905.25, "dur": 0.5, "args": {"grid": [1, 2.5], "x": "y"}}]
    text = json.dumps(rows * 3).replace('"@"', '"say "hi""', 1).replace('"y"', '"\\ud800"')
    found = document(given(tmp_path, text.encode())).content["traceEvents"]
    assert [row["name"] for row in found] == ['say "hi"', "@", "@"]
    assert all((row["ts"], row["args"]["grid"]) == (1712195495820905.25, [1, 2.5]) for row in found)
    assert json.dumps(found).encode()


def test_events_whose_time_is_no_number_are_left_out(tmp_path: Path) -> None:
    rows = [{"ph": "X", "ts": 1, "dur": 2}, {"ph": "X", "ts": None}, {"ph": "X", "ts": "5", "dur": []}, {"ph": "M"}]
    found = document(given(tmp_path, json.dumps([*rows, {"ph": "X", "ts": "7.5", "dur": 1}]).encode()))
    assert [event.get("ts") for event in found.content["traceEvents"]] == [1, None, "7.5"]
    assert found.warnings == ("left out: 2 x time that is no number",)


def test_what_is_no_trace_is_no_document(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        document(given(tmp_path, b'{"a": 1}'))
