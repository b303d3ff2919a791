"""Annotated traces, held against the Chrome trace format and against our own loader.

Perfetto's trace processor is a binary that its Python package fetches when it is first used, which a test must not;
the format's rules are checked instead: known phases, numbers where numbers belong, slices of a track that never cross,
arrows with both ends.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support import report_cases as cases
from tests.support import run_cases
from tests.support.places import SAMPLE
from tracelens import pipeline
from tracelens.cli import main
from tracelens.errors import UsageError
from tracelens.report import perfetto

pytestmark = pytest.mark.slow  # a recorded trace is annotated and read back

OURS = (perfetto.PROCESS, perfetto.PREDICTED)


def problems(events: list[dict[str, Any]]) -> list[str]:
    """What breaks the format, or what a viewer would drop."""
    found = []
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    arrows: dict[int, list[str]] = defaultdict(list)
    for event in events:
        if event["ph"] not in "XMsf" or not isinstance(event["pid"], int) or not isinstance(event["tid"], int):
            found.append(f"not a row of the format: {event}")
        elif event["ph"] == "X":
            if not (isinstance(event["ts"], int | float) and event["dur"] >= 0 and event["name"]):
                found.append(f"not a slice: {event}")
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "sf":
            arrows[event["id"]].append(event["ph"])
    found += [f"arrow {number} has {ends}" for number, ends in arrows.items() if sorted(ends) != ["f", "s"]]
    return found + [f"slices cross on {track}" for track, slices in tracks.items() if crossing(slices)]


def crossing(slices: list[tuple[float, float]]) -> bool:
    """Whether two slices overlap without one holding the other (to a ns: times are µs in floating point)."""
    open_ends: list[float] = []
    for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
        while open_ends and open_ends[-1] <= start + 1e-3:
            open_ends.pop()
        if open_ends and end > open_ends[-1] + 1e-3:
            return True
        open_ends.append(end)
    return False


def test_the_check_itself_sees_slices_that_cross() -> None:
    assert crossing([(0, 2), (1, 3)]) and not crossing([(0, 3), (1, 2), (3, 4)])


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """A recorded trace before and after."""
    out = tmp_path_factory.mktemp("annotate") / "out.json.gz"
    assert main(["annotate", str(SAMPLE), "-o", str(out), "-q"]) == 0
    before = json.loads(gzip.decompress(next(SAMPLE.glob("rank0/*.gz")).read_bytes()), strict=False)
    return before, json.loads(gzip.decompress(out.read_bytes())), out


def test_the_rows_of_the_recording_stay_and_ours_keep_the_format(
    sample: tuple[dict[str, Any], dict[str, Any], Path],
) -> None:
    before, after, _ = sample
    count = len(before["traceEvents"])
    assert after["traceEvents"][:count] == before["traceEvents"]
    assert {key for key in before if key != "traceEvents"} <= set(after)
    ours = after["traceEvents"][count:]
    assert {event["pid"] for event in ours} == set(OURS)
    assert problems(ours) == []
    named = {(event["pid"], event["tid"]) for event in ours if event["name"] == "thread_name"}
    assert {(event["pid"], event["tid"]) for event in ours if event["ph"] == "X"} <= named


def test_findings_waits_idle_time_and_both_replays_have_tracks(
    sample: tuple[dict[str, Any], dict[str, Any], Path],
) -> None:
    events = sample[1]["traceEvents"]
    names = {event["args"]["name"] for event in events if event["pid"] in OURS and event["name"] == "thread_name"}
    assert {"findings", "kept steps", "GPU 0 idle, by cause"} <= names
    assert any(name.startswith("waits of the host, thread ") for name in names)
    assert {"as it is: host", "with event-interval: host", "with event-interval: stream 7"} <= names
    phases = Counter(event["ph"] for event in events if event["pid"] == perfetto.PROCESS)
    assert phases["s"] == phases["f"] > 10


def test_our_loader_finds_the_same_in_the_annotated_trace(sample: tuple[dict[str, Any], dict[str, Any], Path]) -> None:
    trace = next(SAMPLE.glob("rank0/*.gz"))
    before, after = (pipeline.diagnose(pipeline.open_inputs((path,))) for path in (trace, sample[2]))
    assert after.breakdown == before.breakdown and after.steps == before.steps
    assert [(one.api, one.wait_ns, one.exposed_ns) for one in after.stalls] == [
        (one.api, one.wait_ns, one.exposed_ns) for one in before.stalls
    ]


def test_trimmed_to_two_steps_it_is_small_and_holds_them(
    sample: tuple[dict[str, Any], dict[str, Any], Path], tmp_path: Path
) -> None:
    out = tmp_path / "two.json.gz"
    assert main(["annotate", str(SAMPLE), "-o", str(out), "--steps", "98:99", "-q"]) == 0
    events = json.loads(gzip.decompress(out.read_bytes()))["traceEvents"]
    assert out.stat().st_size < sample[2].stat().st_size / 3
    assert [e["name"] for e in events if e["pid"] == perfetto.PROCESS and e["name"].startswith("step ")] == [
        "step 98", "step 99",
    ]  # fmt: skip
    assert problems([event for event in events if event["pid"] in OURS]) == []


def test_steps_that_the_trace_does_not_have_are_wrong_usage(tmp_path: Path) -> None:
    trace = run_cases.trace(tmp_path / "t.json") if hasattr(run_cases, "trace") else SAMPLE
    assert main(["annotate", str(trace), "-o", str(tmp_path / "o.json"), "--steps", "9000"]) == 2
    assert main(["annotate", str(trace), "-o", str(tmp_path / "o.json"), "--steps", "two"]) == 2
    with pytest.raises(UsageError, match="no step 7 to 9"):
        perfetto.annotated({"traceEvents": []}, cases.planned(), (7, 9))


def test_hostile_names_lose_their_control_characters() -> None:
    base = cases.planned()
    rows = perfetto.annotated({"traceEvents": []}, cases.with_names("a\x1b[2Jb", base))["traceEvents"]
    assert rows and "\x1b" not in json.dumps(rows, ensure_ascii=False)


# ---------------------------------------------------------------------------------------------------- perfetto


def test_annotated_traces_keep_their_rows_and_get_tracks_on_the_files_own_clock() -> None:
    rows = [{"ph": "X", "name": "a", "ts": 5_000.0, "dur": 1.0}, {"ph": "X", "name": "zero", "ts": 0, "dur": 0}]
    document = perfetto.annotated({"traceEvents": rows, "keep": 1}, cases.planned())
    assert document["traceEvents"][:2] == rows and document["keep"] == 1
    added = [row for row in document["traceEvents"][2:] if row["ph"] == "X"]
    waits = [row for row in added if row["tid"] == perfetto.WAITS]
    assert len(waits) == 3  # those of the one stall that names its waits
    assert waits[0]["ts"] == 5_000.0 + 2_000.0 and waits[0]["dur"] == 6_000.0
    assert waits[0]["args"]["where"] == "train.py:11"
