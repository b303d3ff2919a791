"""Damaged traces: whatever happened to a file, its intact events give the numbers that they give alone, and nothing
but `TracelensError` comes out."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import KINDS, Edit, mutated
from tests.support.builders import loop
from tests.support.places import TRACES
from tracelens.errors import InputError, TracelensError
from tracelens.model import Completeness, Trace
from tracelens.trace import chrome, timeline

SMALL = ("hta/event_sync_small", "hta/old_format_async_gpu", "hta/triton", "hta/cpu_only", "amd/torch_compile_triton")
QUIET = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


EVENTS = loop(4)
TOP = {"schemaVersion": 1, "baseTimeNanoseconds": EVENTS.document()["baseTimeNanoseconds"]}
ROWS = tuple(json.dumps(row) for row in EVENTS.rows)


def text(rows: tuple[str, ...]) -> bytes:
    """A trace whose events are these texts, in this order."""
    return (json.dumps(TOP)[:-1] + ', "traceEvents": [\n' + ",\n".join(rows) + "\n]}").encode(
        "utf-8", "surrogateescape"
    )


def loaded(folder: Path, data: bytes) -> Trace | None:
    """None where the file is refused, as it should be when no event is left."""
    path = folder / "trace.json"
    path.write_bytes(data)
    try:
        return chrome.load(path)
    except InputError as error:
        assert error.exit_code == 4 and error.hint
        return None


def assert_same_numbers(left: Trace | None, right: Trace | None) -> None:
    """Of the rows that are there; which steps are judged where rows are missing is `test_incomplete_recordings`."""
    assert (left is None) == (right is None)
    if left is None or right is None:
        return
    assert left.base_unix_ns == right.base_unix_ns
    one, two = (timeline.build(replace(trace, completeness=Completeness())) for trace in (left, right))
    for table in ("steps", "calls", "ops", "syncs", "idle_gaps"):
        assert getattr(one, table)().equals(getattr(two, table)()), table
    assert one.step_source == two.step_source


def counted(trace: Trace | None) -> Counter[tuple[object, ...]]:
    """The rows of a trace on the file's own clock; those of a damaged file cannot move the zero of the others."""
    if trace is None:
        return Counter()
    numbers = [trace.columns[key].tolist() for key in ("pid", "tid", "stream", "correlation", "bytes")]
    names = [trace.names[code] for code in trace.columns["name"]]
    start = (trace.columns["start_ns"] + trace.origin_ns).tolist()
    end = (trace.columns["end_ns"] + trace.origin_ns).tolist()
    return Counter(zip(names, start, end, *numbers, strict=True))


# --------------------------------------------------------------------------------- the same numbers as intact events


@pytest.mark.slow
@given(st.integers(0, len(text(ROWS))))
@QUIET
def test_a_cut_file_gives_the_numbers_of_its_complete_events(tmp_path: Path, cut: int) -> None:
    head = text(()).index(b"[\n") + 2
    ends = np.cumsum([len(row) + 2 for row in ROWS]) + head - 2
    whole = ROWS[: int(np.searchsorted(ends, cut, side="right"))]
    assert_same_numbers(loaded(tmp_path, text(ROWS)[:cut]), loaded(tmp_path, text(whole)) if whole else None)


@pytest.mark.slow
@example({0}, "nul")  # once joined with the next event, as if its name had quotes inside
@example({0, 1}, "brace")  # once took the next event with it
@given(st.sets(st.integers(0, len(ROWS) - 1), max_size=8), st.sampled_from(["brace", "key", "number", "nul", "start"]))
@QUIET
def test_events_that_cannot_be_read_change_no_other(tmp_path: Path, victims: set[int], how: str) -> None:
    ways = {
        "brace": lambda row: row[:-1],
        "key": lambda row: row.replace('"ts": ', '"ts" ', 1),
        "number": lambda row: row.replace('"dur": ', '"dur": {[', 1),
        "nul": lambda row: row[:10] + "\0" * (len(row) - 10),
        "start": lambda row: row[7:],
    }
    damaged = tuple(ways[how](row) if at in victims else row for at, row in enumerate(ROWS))
    intact = tuple(row for at, row in enumerate(ROWS) if at not in victims)
    trace = loaded(tmp_path, text(damaged))
    assert_same_numbers(trace, loaded(tmp_path, text(intact)))
    if trace is not None and victims:
        assert sum(trace.dropped.values()) and any("left out" in warning for warning in trace.warnings)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, len(ROWS) - 1), st.floats(0, 1), st.binary(min_size=1, max_size=12)), max_size=4)
)
@example([(3, 0.5, b"}")])
@example([(3, 0.5, b'"')])
@example([(3, 0.9, b"},{")])
@QUIET
def test_bytes_that_go_bad_inside_an_event_cost_no_other(
    tmp_path: Path, damage: list[tuple[int, float, bytes]]
) -> None:
    """A closing bracket may end the array, and who writes `"},{"` writes events: both are left out here."""
    rows = [row.encode() for row in ROWS]
    for at, share, data in damage:
        place = 1 + int(share * (len(rows[at]) - 2))
        rows[at] = mutated(rows[at], [Edit("overwrite", place / len(rows[at]), 0, 0, data.replace(b"]", b"["))])
    damaged = tuple(row.decode("utf-8", "surrogateescape") for row in rows)
    intact = tuple(row for at, row in enumerate(ROWS) if at not in {at for at, _, _ in damage})
    lost = counted(loaded(tmp_path, text(intact))) - counted(loaded(tmp_path, text(damaged)))
    assert not lost


# -------------------------------------------------------------------------------------------------------------- fuzz


@cache
def seed(name: str) -> bytes:
    """A small real trace, unpacked."""
    path = TRACES / f"{name}.json.gz"
    if not path.exists():
        pytest.skip("the shared traces are not at hand")
    return gzip.decompress(path.read_bytes())


EDITS = st.lists(
    st.builds(
        Edit,
        kind=st.sampled_from(KINDS),
        at=st.floats(0, 1),
        size=st.integers(0, 2000),
        other=st.floats(0, 1),
        data=st.binary(max_size=8),
    ),
    max_size=6,
)


def survives(folder: Path, data: bytes, name: str) -> None:
    """Loads and has a Timeline, or is refused with one of our errors."""
    path = folder / name
    path.write_bytes(data)
    try:
        trace = chrome.load(path, max_bytes=50_000_000)
    except TracelensError as error:
        assert error.exit_code == 4 and error.hint
    else:
        assert len(trace)
        timeline.build(trace)


@pytest.mark.slow
@given(st.sampled_from(SMALL), EDITS)
@QUIET
def test_a_damaged_real_trace_raises_nothing_else(tmp_path: Path, name: str, edits: list[Edit]) -> None:
    survives(tmp_path, mutated(seed(name), edits), "trace.json")


@pytest.mark.slow
@given(st.sampled_from(SMALL), EDITS)
@QUIET
def test_a_damaged_gzip_raises_nothing_else(tmp_path: Path, name: str, edits: list[Edit]) -> None:
    survives(tmp_path, mutated(gzip.compress(seed(name), 1), edits), "trace.json.gz")


@given(st.sampled_from(SMALL), EDITS)
@QUIET
def test_a_damaged_zstd_raises_nothing_else(tmp_path: Path, name: str, edits: list[Edit]) -> None:
    zstandard = pytest.importorskip("zstandard", reason="zstandard is not installed")
    survives(tmp_path, mutated(zstandard.ZstdCompressor().compress(seed(name)), edits), "trace.json.zst")
