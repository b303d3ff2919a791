"""Averages of the monitor are over the training, not over imports and the saving of the trace."""

from __future__ import annotations

from dataclasses import replace

from tests.support import report_cases as cases
from tracelens.report import charts
from tracelens.report.training_window import taken_in, training_window

SECOND = 1_000_000_000


def test_samples_before_and_after_the_training_are_not_averaged() -> None:
    rows = [{"unix_ns": n * SECOND} for n in range(10)]
    counted = taken_in(rows, (3 * SECOND, 6 * SECOND))
    assert counted == (False,) * 3 + (True,) * 4 + (False,) * 3
    busy = [0.0] * 3 + [60.0] * 4 + [0.0] * 3
    drawn = charts.utilization(rows, {"GPU": busy}, counted)
    assert drawn is not None and drawn.curves[0].mean == "60 %"


def test_too_few_samples_of_the_training_are_no_average() -> None:
    rows = [{"unix_ns": n * SECOND} for n in range(10)]
    assert taken_in(rows, (3 * SECOND, 4 * SECOND)) == taken_in(rows, None) == (False,) * 10
    drawn = charts.utilization(rows, {"GPU": [50.0] * 10}, taken_in(rows, None))
    assert drawn is not None and drawn.curves[0].mean == "–" and not drawn.averaged


def test_the_training_begins_with_the_steps_without_the_profiler() -> None:
    diagnosis = cases.recommended()
    trace = replace(diagnosis.timeline.trace, base_unix_ns=1_000 * SECOND)
    begun = training_window(replace(diagnosis, timeline=replace(diagnosis.timeline, trace=trace)))
    steps = diagnosis.timeline.tables.steps
    recordings = diagnosis.run.recordings if diagnosis.run else ()
    timed = sum(recordings[0].clock.unprofiled_ns) if recordings else 0
    first, last = int(steps["start_ns"].min()), int(steps["end_ns"].max())
    assert begun == (1_000 * SECOND + first - timed, 1_000 * SECOND + last)


def test_without_the_time_of_the_recording_no_window_is_known() -> None:
    diagnosis = cases.recommended()
    trace = replace(diagnosis.timeline.trace, base_unix_ns=None)
    assert training_window(replace(diagnosis, timeline=replace(diagnosis.timeline, trace=trace))) is None
