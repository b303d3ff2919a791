"""The small stages of a report, each with an answer known beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import report_cases as cases
from tests.support.builders import Events
from tracelens.model import Location
from tracelens.report import budget, charts, compare, diff, perfetto, source_excerpt, step_picture, words
from tracelens.run import sources

# ----------------------------------------------------------------------------------------------------- excerpt


def test_an_excerpt_marks_the_call_up_to_its_closing_bracket() -> None:
    text = "a = 1\nb = f(loss.item(), g(2))\n"
    found = source_excerpt.around({"t.py": text}, Location("t.py", 2), "Tensor.item")
    assert found is not None
    assert "b = f(loss.item(), g(2))"[found.start : found.end] == "loss.item()"


@pytest.mark.parametrize("location", [None, Location("t.py", None), Location("t.py", 9), Location("u.py", 1)])
def test_no_excerpt_for_a_line_that_is_not_there(location: Location | None) -> None:
    assert source_excerpt.around({"t.py": "a = 1\n"}, location, "item") is None


def test_without_the_name_the_statement_is_marked_without_its_comment() -> None:
    found = source_excerpt.around({"t.py": "    x = y.z  # why\n"}, Location("t.py", 1), "Tensor.cpu")
    assert found is not None and "    x = y.z  # why"[found.start : found.end] == "x = y.z"


# -------------------------------------------------------------------------------------------------------- diff


def test_a_diff_becomes_rows_with_both_line_numbers() -> None:
    (file,) = diff.parse(cases.DIFF)
    assert file.path == "train.py"
    assert [(row.kind, row.old, row.new) for row in file.rows] == [
        ("hunk", None, None), ("same", 8, 8), ("same", 9, 9), ("same", 10, 10),
        ("del", 11, None), ("del", 12, None), ("add", None, 11), ("same", 13, 12),
    ]  # fmt: skip


def test_removed_lines_that_look_like_headers_stay_lines() -> None:
    text = "--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n-- note\n--- old\n a\n+++ b\n"
    (file,) = diff.parse(text)
    assert [row.kind for row in file.rows] == ["hunk", "del", "del", "same", "add"]


def test_two_files_and_an_empty_diff() -> None:
    assert [file.path for file in diff.parse(cases.DIFF + cases.DIFF.replace("train.py", "u.py"))] == [
        "train.py",
        "u.py",
    ]
    assert diff.parse("") == ()


# ------------------------------------------------------------------------------------------------------- lanes


def test_lanes_of_one_step_lie_on_one_scale() -> None:
    picture = step_picture.of(cases.timeline())
    assert picture is not None
    named = {lane.name: lane.boxes for lane in picture.lanes}
    assert list(named) == ["CPU main thread", "Stream 7", "GPU idle"]
    scale = (step_picture.WIDTH - step_picture.LABEL_WIDTH) / 10  # a step of 10 ms
    (wait,) = [box for box in named["CPU main thread"] if box.kind == "wait"]
    assert wait.x == pytest.approx(step_picture.LABEL_WIDTH + 2 * scale, abs=0.1)
    assert wait.width == pytest.approx(6 * scale, abs=0.1)
    assert wait.label == "SYNC" and "train.py:11" in wait.title
    assert {box.kind for box in named["GPU idle"]} == {"idle_sync", "idle_host"}


def test_what_is_narrower_than_the_picture_can_show_is_joined_not_dropped() -> None:
    timeline = cases.timeline()
    ops = timeline.tables.ops.iloc[[1]]
    many = ops.loc[ops.index.repeat(5000)].reset_index(drop=True)
    starts = many.index.to_numpy() * 2_000  # 1 µs of work every 2 µs: 10 ms together
    many = many.assign(start_ns=starts, end_ns=starts + 1_000)
    picture = step_picture.of(replace(timeline, tables=replace(timeline.tables, ops=many)))
    assert picture is not None
    boxes = next(lane.boxes for lane in picture.lanes if lane.name == "Stream 7")
    assert len(boxes) == 1 and boxes[0].width == pytest.approx(step_picture.WIDTH - step_picture.LABEL_WIDTH, rel=0.01)


def test_the_step_shown_is_the_one_nearest_the_median() -> None:
    timeline = cases.timeline()
    steps = timeline.tables.steps.assign(end_ns=[5_000_000, 20_000_000, 70_000_000])  # 5, 10 and 50 ms long
    picture = step_picture.of(replace(timeline, tables=replace(timeline.tables, steps=steps)))
    assert picture is not None and picture.step == 1


# ---------------------------------------------------------------------------------------------------- pictures


def test_the_breakdown_bar_is_exactly_full() -> None:
    segments = charts.breakdown(cases.diagnosis().breakdown)
    assert sum(segment.width for segment in segments) == pytest.approx(charts.WIDTH, abs=0.05)
    assert [segment.part for segment in segments] == ["compute", "copy_exposed", "idle_sync", "idle_host"]


def test_bars_are_proportional_to_step_times() -> None:
    bars = charts.step_times(cases.recommended().schemes)
    assert bars is not None
    assert bars.rows[0].width / bars.base == pytest.approx(8.1 / 9.5, rel=0.01)
    assert charts.step_times(cases.planned().schemes) is None


def test_predicted_and_measured_share_an_axis_that_holds_no_change() -> None:
    picture = charts.graded(cases.recommended().verifications[0])
    assert picture is not None
    predicted, measured = picture.rows
    assert predicted.kind == "predicted" and measured.kind == "measured"
    assert picture.zero < measured.low < measured.mid < measured.high
    assert predicted.mid > measured.mid  # 17.3 % against 16.3 %


# --------------------------------------------------------------------------------------------- compare, budget


def slower(by: float) -> list[int]:
    return [round(by * (10_000_000 + 10_000 * (k % 5))) for k in range(20)]


@pytest.mark.parametrize(("factor", "judgment"), [(1.0, "not slower"), (1.2, "slower"), (0.8, "not slower")])
def test_the_gate_fails_only_for_a_slowdown_beyond_noise_and_tolerance(factor: float, judgment: str) -> None:
    ratio = compare._ratio([slower(1.0)], [slower(factor)])
    found = replace(compare.of(cases.diagnosis(), cases.diagnosis()), ratio=ratio)
    assert found.judgment == judgment
    assert ratio is not None and ratio.low <= ratio.value <= ratio.high


def test_three_steps_decide_nothing_and_another_gpu_is_not_comparable() -> None:
    same = compare.of(cases.diagnosis(), cases.diagnosis())
    assert same.ratio is None and same.judgment == "inconclusive"
    other = compare.of(cases.diagnosis(), cases.diagnosis(timeline=cases.timeline("A100")))
    assert other.obstacles == ("device: NVIDIA H200 against A100",)


def test_budgets_say_within_above_and_not_measured() -> None:
    limits = budget.Limits(syncs_per_step=1.0, exposed_ms=1.0, idle_share=0.3, step_ms=9.6)
    items = budget.check(cases.diagnosis(), limits, None)
    assert [(item.value, item.within) for item in items] == [(2.0, False), (None, None), (0.25, True), (9.5, True)]


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


def test_locations_that_cannot_be_files_have_no_source(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(cases.SOURCE)
    code = sources.training_script(None, script)
    stall = cases.diagnosis().stalls[0]
    places = ("x" * 300, "nul\0.py", "/proc/self/mem", "train.py")
    stalls = [replace(stall, location=Location(place, 3)) for place in places]
    assert sources.located_texts(stalls, None, code, "all")["train.py"] == cases.SOURCE
    assert set(sources.located_texts(stalls, None, code, "project")) == {"train.py"}


# -------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("listed", "worked", "said"),
    [
        ([{"id": 0, "name": "NVIDIA H200"}], True, "NVIDIA H200"),
        ([], True, "a GPU that the trace does not name"),
        ([], False, "no GPU in the recording"),
    ],
)
def test_a_gpu_without_a_name_is_a_gpu(listed: list[dict[str, object]], worked: bool, said: str) -> None:
    events = Events(top={"deviceProperties": listed})
    events.add("cpu_op", "aten::mm", 0, 5)
    if worked:
        events.kernel(events.call("cudaLaunchKernel", 5, 5), "gemm", 20, 5)
    assert words.device(events.trace()) == said
