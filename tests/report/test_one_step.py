"""The picture of one step and the bars beside it: one scale, nothing dropped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import report_cases as cases
from tracelens.report import charts, step_picture

# ------------------------------------------------------------------------------------------------------- lanes


def test_lanes_of_one_step_lie_on_one_scale() -> None:
    picture = step_picture.draw_step(cases.timeline())
    assert picture is not None
    named = {lane.name: lane.boxes for lane in picture.lanes}
    assert list(named) == ["Python thread", "Stream 7", "GPU idle"]
    scale = (step_picture.WIDTH - step_picture.LABEL_WIDTH) / 10  # a step of 10 ms
    (wait,) = [box for box in named["Python thread"] if box.kind == "wait"]
    assert wait.x == pytest.approx(step_picture.LABEL_WIDTH + 2 * scale, abs=0.1)
    assert wait.width == pytest.approx(6 * scale, abs=0.1)
    assert wait.label == "SYNC" and "train.py:11" in wait.title
    assert {box.kind for box in named["GPU idle"]} == {"idle_sync", "idle_host"}


def test_what_is_narrower_than_the_picture_can_show_is_joined_not_dropped() -> None:
    timeline = cases.timeline()
    starts = np.arange(5000) * 2_000  # 1 µs of work every 2 µs: 10 ms together
    many = timeline.tables.ops[np.full(5000, 1)].with_columns(start_ns=starts, end_ns=starts + 1_000)
    picture = step_picture.draw_step(replace(timeline, tables=replace(timeline.tables, ops=many)))
    assert picture is not None
    boxes = next(lane.boxes for lane in picture.lanes if lane.name == "Stream 7")
    assert len(boxes) == 1 and boxes[0].width == pytest.approx(step_picture.WIDTH - step_picture.LABEL_WIDTH, rel=0.01)


def test_the_step_shown_is_the_one_nearest_the_median() -> None:
    timeline = cases.timeline()
    steps = timeline.tables.steps.with_columns(
        end_ns=np.array([5_000_000, 20_000_000, 70_000_000])
    )  # 5, 10 and 50 ms long
    picture = step_picture.draw_step(replace(timeline, tables=replace(timeline.tables, steps=steps)))
    assert picture is not None and picture.step == 1


# ---------------------------------------------------------------------------------------------------- pictures


def test_the_breakdown_bar_is_exactly_full() -> None:
    segments = charts.breakdown(cases.diagnosis().breakdown)
    assert sum(segment.width for segment in segments) == pytest.approx(100, abs=0.02)
    assert [segment.part for segment in segments] == ["compute", "copy_exposed", "idle_sync", "idle_host"]


def test_two_neighbours_are_shown_where_steps_vary() -> None:
    steps = cases.timeline().tables.steps
    even = step_picture.typical_view(steps)
    assert even is not None and len(even.numbers) == 1
    uneven = steps.with_columns(
        start_ns=np.array([0, 4_000_000, 20_000_000]), end_ns=np.array([4_000_000, 20_000_000, 24_000_000])
    )
    view = step_picture.typical_view(uneven)
    assert view is not None and view.numbers == (0, 1) and view.end_ns - view.start_ns == 20_000_000
    assert "steps vary" in view.caption


def test_predicted_and_measured_share_an_axis_that_holds_no_change() -> None:
    picture = charts.prediction_grade(cases.recommended().verifications[0])
    assert picture is not None
    predicted, measured = picture.rows
    assert predicted.kind == "predicted" and measured.kind == "measured"
    assert picture.zero < measured.low < measured.mid < measured.high
    assert predicted.mid > measured.mid  # 17.3 % against 16.3 %
