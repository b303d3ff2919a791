"""One step of the GPU as a lane: as many columns are busy as the GPU is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tracelens.report import step_lanes
from tracelens.report.step_lanes import StepLane


@pytest.mark.parametrize(
    ("busy", "drawn"),
    [
        (((0.0, 0.5),), "#####....."),
        (((0.5, 1.0),), ".....#####"),
        (tuple((0.1 * n, 0.1 * n + 0.02) for n in range(10)), "..#....#.."),  # 20 % in ten slivers is two columns
        (((0.0, 1.0),), "##########"),
        ((), ".........."),
    ],
)
def test_as_many_columns_are_busy_as_the_gpu_is(busy: tuple[tuple[float, float], ...], drawn: str) -> None:
    columns = step_lanes.columns(StepLane("now", 1, busy), 10)
    assert "".join("#" if one else "." for one in columns) == drawn


def test_the_lane_is_the_baseline_long_and_as_busy_as_recorded() -> None:
    diagnosis = cases.recommended()
    now, *_ = step_lanes.lanes(diagnosis)
    assert (now.name, now.step_ns) == ("now", diagnosis.steps.best_known_ns)
    assert 0 < sum(end - start for start, end in now.busy) <= 1
    assert all(0 <= start < end <= 1 for start, end in now.busy)
    assert list(now.busy) == sorted(now.busy)


def test_without_steps_there_is_no_lane() -> None:
    diagnosis = cases.recommended()
    assert step_lanes.lanes(replace(diagnosis, steps=replace(diagnosis.steps, source="none"))) == ()
