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


# ----------------------------------------------------------------------------------------------------- budget


def test_ten_minutes_take_the_usual_limits_and_so_does_more() -> None:
    assert WindowPlan().for_budget(600) == WindowPlan()
    assert WindowPlan().for_budget(3600) == WindowPlan()


def test_a_shorter_budget_takes_shorter_limits_in_proportion() -> None:
    plan = WindowPlan().for_budget(150)  # a quarter of ten minutes
    assert (plan.unprofiled_most_seconds, plan.most_window_seconds, plan.most_events) == (7.5, 15.0, 250_000)
    assert plan.clean == WindowPlan().clean, "an ordinary step still fits as often as ever"


def test_a_step_of_very_many_events_is_recorded_less_often_where_the_budget_is_short() -> None:
    steps = WindowPlan().within_limits(events=78_000, seconds=0.5, free_bytes=None)
    assert (steps.clean, steps.attributed) == (11, 1)  # 12 · 78,000 = 936,000 of 1,000,000
    fewer = WindowPlan().for_budget(150).within_limits(events=78_000, seconds=0.5, free_bytes=None)
    assert (fewer.clean, fewer.attributed) == (2, 1)  # 3 · 78,000 = 234,000 of 250,000
    one = WindowPlan().for_budget(10).within_limits(events=78_000, seconds=0.5, free_bytes=None)
    assert (one.clean, one.attributed) == (1, 1), "one step and its lines are recorded whatever they cost"


def test_an_ordinary_step_is_recorded_as_often_with_a_minute() -> None:
    usual = WindowPlan().within_limits(events=5_000, seconds=0.05, free_bytes=None)
    assert WindowPlan().for_budget(60).within_limits(events=5_000, seconds=0.05, free_bytes=None).clean == usual.clean
