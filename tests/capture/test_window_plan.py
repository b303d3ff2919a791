"""The plan of a recording: how long each window lasts, and how it fits what is left of the loop."""

from __future__ import annotations

import json
import math

import pytest

from tracelens.capture.window_plan import WindowPlan

# ------------------------------------------------------------------------------------------------------- plan


def test_the_unprofiled_window_needs_steps_and_seconds_and_ends() -> None:
    plan = WindowPlan(
        unprofiled_steps=20, unprofiled_seconds=2.0, unprofiled_most_steps=100, unprofiled_most_seconds=30.0
    )
    assert not plan.unprofiled_enough(19, 10.0)
    assert not plan.unprofiled_enough(20, 1.9)
    assert plan.unprofiled_enough(20, 2.0)
    assert plan.unprofiled_enough(100, 0.1)
    assert plan.unprofiled_enough(4, 30.0)
    assert not plan.unprofiled_enough(3, 30.0)


def test_no_step_goes_by_unseen_with_which_the_unprofiled_window_closes() -> None:
    plan = WindowPlan(
        unprofiled_steps=20, unprofiled_seconds=2.0, unprofiled_most_steps=100, unprofiled_most_seconds=30.0
    )
    assert plan.unobserved(1, 0.001) == 18  # the twentieth is seen
    assert plan.unobserved(19, 0.019) == 0
    assert plan.unobserved(20, 0.02) == 64
    assert plan.unobserved(90, 0.09) == 9
    assert plan.unobserved(20, 1.0) == 5  # a quarter of a second
    assert plan.unobserved(20, 20.0) == 0
    assert plan.unobserved(100, 0.1) == 0
    assert plan.by_counts().unobserved(10, 0.01) == 29


@pytest.mark.parametrize("remaining", [1, 2, 3, 4, 5, 8, 12, 20, 30, 39, 40, 41, 60, 1000])
def test_a_fitted_plan_fits(remaining: int) -> None:
    plan = WindowPlan().fitted(remaining)
    least = plan.settle + plan.unprofiled_steps + plan.warmup + plan.clean + plan.attributed
    assert least <= remaining
    assert plan.clean >= 1
    assert plan.shrunk == (remaining < 40)
    assert plan.settle + plan.unprofiled_most_steps + plan.warmup + plan.clean + plan.attributed <= max(
        remaining, least
    )


def test_a_loop_of_unknown_length_is_not_waited_for() -> None:
    plan = WindowPlan().with_unknown_length()
    assert plan.unprofiled_enough(150, 0.1)
    assert not plan.unprofiled_enough(149, 0.1)
    total = plan.settle + plan.unprofiled_most_steps + plan.warmup + plan.clean + plan.attributed
    assert total < 200


def test_a_plan_survives_json_and_ignores_what_it_does_not_know() -> None:
    plan = WindowPlan(clean=7).by_counts()
    again = WindowPlan.from_config(json.loads(json.dumps({**plan.as_dict(), "other": 1})))
    assert again.clean == 7
    assert plan.most_window_seconds == math.inf


def test_ranks_that_step_together_decide_by_counts_alone() -> None:
    plan = WindowPlan(unprofiled_steps=20).by_counts()
    assert not plan.unprofiled_enough(39, 1e9)
    assert plan.unprofiled_enough(40, 0.0)
