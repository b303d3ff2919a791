"""What a change gives back is the same part of the step that is shown as of the step that the replay meets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.builders import Machine
from tests.support.random_loops import stalls
from tracelens.model import Edit, Estimate, StepTimes
from tracelens.replay import bounds, estimate, exposed_cost, line_gains, trace_builder
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.trace import timeline

SHOWN = 0.75
"""Typical steps of a loop whose steps vary are shorter than their mean."""


def loop() -> tuple[ReplayTrace, ReplayTrace]:
    """Six steps with a wait and a copy; and the same with another step time to show."""
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.load_batch(200)
            machine.copy("h2d", "pageable", 4_000, nbytes=20_000_000)
            for _ in range(5):
                machine.launch("conv", 3_000)
            machine.item()
    picture = timeline.build(machine.trace())
    made = trace_builder.build(picture, stalls(picture))
    assert isinstance(made, ReplayTrace), made
    return made, replace(made, shown_ns=round(SHOWN * made.own_ns))


def test_costs_gains_and_limits_are_parts_of_the_step_that_is_shown() -> None:
    own, shown = loop()
    assert exposed_cost.together(shown) == pytest.approx(SHOWN * (exposed_cost.together(own) or 0), rel=0.01)
    waits = [line_gains.without_waits(trace, list(trace.stalls)) for trace in (own, shown)]
    assert waits[0] is not None
    assert waits[1] is not None
    assert waits[1].ns == pytest.approx(SHOWN * waits[0].ns, rel=0.01)
    assert waits[0].ns > 0
    limits = [bounds.step_bounds(trace).largest_ns for trace in (own, shown)]
    assert limits[1] == pytest.approx(SHOWN * limits[0], rel=0.01)


def test_a_prediction_in_percent_is_the_same() -> None:
    found = [estimate.predict(trace, (Edit("async-copy", ("h2d",)),)) for trace in loop()]
    assert all(isinstance(one, Estimate) for one in found)
    own, shown = (one for one in found if isinstance(one, Estimate))
    assert shown.speedup == pytest.approx(own.speedup, rel=0.001)
    assert shown.step_ns == pytest.approx(SHOWN * own.step_ns, rel=0.001)


@pytest.mark.parametrize(
    ("measured_ns", "unprofiled_ns", "shown_ns"), [(7, 9, 7), (None, 9, 8), (None, None, None), (7, None, 7)]
)
def test_the_baseline_is_shown_where_the_replay_knows_an_unprofiled_step(
    measured_ns: int | None, unprofiled_ns: int | None, shown_ns: int | None
) -> None:
    trace = replace(loop()[0], unprofiled_ns=unprofiled_ns)
    steps = StepTimes(8, "tracelens", 10, 9, 11, 8, measured_ns=measured_ns)
    assert trace.shown_on(steps).shown_ns == shown_ns
