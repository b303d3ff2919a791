"""A file that several processes read is the same trace as one that this process reads alone."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import loop
from tests.support.loading import QUIET, row, written
from tracelens.model import Trace
from tracelens.trace import chrome, file_blocks, shared_reading
from tracelens.trace.file_blocks import UndividedError

TEXT = json.dumps(loop(40).document(), indent=1).encode()
BLOCK, SEARCHED = 4_000, 1_500
PAST_THE_END = 1 << 20


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_blocks, "BLOCK", BLOCK)
    monkeypatch.setattr(file_blocks, "SEARCHED", SEARCHED)


def claims(numbers: list[int]) -> int:
    taken, offered = os.pipe()
    os.write(offered, b"".join(map(shared_reading._CLAIM.pack, numbers)))
    os.close(offered)
    return taken


def read_in(path: Path, deals: list[list[int]]) -> shared_reading.SharedReading:
    """As processes would that come to these blocks first."""
    blocks = [block for deal in deals for block in shared_reading._blocks(path, claims([*deal, PAST_THE_END]))]
    return shared_reading._joined(blocks)


def alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    with monkeypatch.context() as patched:
        patched.setattr(shared_reading, "read", lambda _: None)
        return chrome.load(path)


def together(path: Path, reading: shared_reading.SharedReading, monkeypatch: pytest.MonkeyPatch) -> Trace:
    with monkeypatch.context() as patched:
        patched.setattr(shared_reading, "read", lambda _: reading)
        return chrome.load(path)


def assert_same(one: Trace, other: Trace) -> None:
    for name in ("names", "categories", "metadata", "dropped", "warnings", "signals", "completeness", "origin_ns"):
        assert getattr(one, name) == getattr(other, name), name
    assert [*one.columns] == [*other.columns]
    for key, column in one.columns.items():
        assert np.array_equal(column, other.columns[key]) and column.dtype == other.columns[key].dtype, key


@given(st.lists(st.integers(0, 2), min_size=len(TEXT) // BLOCK + 1, max_size=len(TEXT) // BLOCK + 1), st.booleans())
@QUIET
@pytest.mark.usefixtures("small_blocks")
def test_whoever_reads_which_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owners: list[int], packed: bool
) -> None:
    path = written(tmp_path, gzip.compress(TEXT, 1) if packed else TEXT, "trace.json.gz" if packed else "trace.json")
    deals = [[number for number, owner in enumerate(owners) if owner == mine] for mine in range(3)]
    assert_same(together(path, read_in(path, deals), monkeypatch), alone(path, monkeypatch))


@pytest.mark.usefixtures("small_blocks")
def test_pairs_that_begin_in_one_block_and_end_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(ph: str, number: int) -> dict[str, Any]:
        return row(ph=ph, ts=10 * number, name=f"op {number % 7}", args={"Input Dims": [[number]]})

    path = written(tmp_path, json.dumps([half("BE"[number % 2], number) for number in range(300)]))
    everything = [*range(path.stat().st_size // BLOCK + 1)]
    read = together(path, read_in(path, [everything[::2], everything[1::2]]), monkeypatch)
    assert len(read) == 150 and "shapes" in read.signals
    assert_same(read, alone(path, monkeypatch))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("begin", "end", "instead"),
    [
        (len(TEXT) // 2, len(TEXT), b""),
        (len(TEXT) // 2, len(TEXT) // 2 + 30, b'"' * 30),
        (BLOCK - 10, BLOCK - 10, b" " * 2 * SEARCHED),
    ],
    ids=["cut", "damaged", "an event without end"],
)
def test_what_is_damaged_is_not_read_in_blocks(tmp_path: Path, begin: int, end: int, instead: bytes) -> None:
    path = written(tmp_path, TEXT[:begin] + instead + TEXT[end:])
    with pytest.raises(UndividedError):
        read_in(path, [[*range(path.stat().st_size // BLOCK + 1)]])


@pytest.mark.usefixtures("small_blocks")
def test_a_list_after_the_events_is_none_of_events(tmp_path: Path) -> None:
    devices = [{"name": f"GPU {number}", "id": number} for number in range(600)]  # their text looks like events
    path = written(tmp_path, {"traceEvents": [row()], "deviceProperties": devices})
    with pytest.raises(UndividedError):
        read_in(path, [[*range(path.stat().st_size // BLOCK + 1)]])


@pytest.mark.usefixtures("small_blocks")
def test_a_block_that_nobody_read(tmp_path: Path) -> None:
    with pytest.raises(UndividedError):
        read_in(written(tmp_path, TEXT), [[0, 1, 3]])


@pytest.mark.usefixtures("small_blocks")
def test_more_blocks_than_can_be_claimed(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    with pytest.raises(UndividedError):
        [*shared_reading._blocks(path, claims([0, 1, 2]))]


def large(folder: Path) -> Path:
    """More than one block."""
    events = (row(ts=number, args={"External id": number, "note": "." * 300}) for number in range(25_000))
    path = written(folder, json.dumps({"traceEvents": [*events], "world": 7}))
    assert path.stat().st_size > 2 * file_blocks.BLOCK
    return path


@pytest.mark.programs
def test_other_processes_read_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(tmp_path)
    monkeypatch.setattr(shared_reading, "SMALLEST_PLAIN", 0)
    monkeypatch.setattr(shared_reading, "_cores", lambda: 3)
    reading = shared_reading.read(path)
    assert reading is not None and reading.metadata == {"world": 7}
    assert_same(together(path, reading, monkeypatch), alone(path, monkeypatch))


@pytest.mark.programs
def test_another_process_that_fails_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = large(tmp_path)
    monkeypatch.setattr(shared_reading, "SMALLEST_PLAIN", 0)
    monkeypatch.setattr(shared_reading, "_cores", lambda: 2)
    monkeypatch.setattr(shared_reading, "_PROGRAM", "import os, sys; os.read(int(sys.argv[2]), 4)")
    assert shared_reading.read(path) is None
    assert len(chrome.load(path)) == 25_000


def test_small_files_and_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, TEXT)
    monkeypatch.setattr(shared_reading, "_helpers", None)  # whoever started one would fail
    assert shared_reading.read(path) is None and shared_reading.read("-") is None
    monkeypatch.setattr(shared_reading, "SMALLEST_PLAIN", 0)
    monkeypatch.setattr(shared_reading, "_cores", lambda: 1)
    assert shared_reading.read(path) is None
