"""The stages of the plan: goals are met by measurements only, and each stage names what comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tracelens.model import Edit, Estimate, Goal, Ratio, Scheme, Stage, Verification
from tracelens.schemes import rules
from tracelens.schemes.catalog import GoalRule, StageRule
from tracelens.schemes.facts import Facts
from tracelens.schemes.stages import stages

GAIN = GoalRule("3 % faster", "gain_percent", 3, "", "")


def scheme(name: str, *reasons: str, rank: int | None = None, pays: bool = True) -> Scheme:
    estimate = Estimate(1_000, 800, 790, 810, "host", "unprofiled", "replayed") if pays else None
    return Scheme(name, name, (), None, {}, None, None, None, rank, estimate, pays, reasons)


def trial(name: str, ratio: float = 0.8, outcome: Any = "faster", **windows: dict[str, float]) -> Verification:
    return Verification(
        name, outcome, True, Ratio(ratio, ratio, ratio), 1_000, round(1_000 * ratio), None, "", {"windows": windows}
    )


def stage(schemes: tuple[Scheme, ...], *trials: Verification, goals: tuple[GoalRule, ...] = (GAIN,)) -> Stage:
    """The only stage of a plan with these schemes in it."""
    rule = StageRule(1, "fewer waits", tuple(one.id for one in schemes), goals)
    (made,) = stages(replace(rules.load(), stages=(rule,)), schemes, Facts(1_000, {}, verifications=trials))
    return made


def goal(metric: str, at_least: float, *trials: Verification) -> Goal:
    asked = GoalRule("the goal", metric, at_least, "", "")
    (made,) = stage((scheme("a"), scheme("b")), *trials, goals=(asked,)).goals
    return made


# ---------------------------------------------------------------------------------------------------------- goals


def test_without_a_trial_no_goal_has_a_verdict() -> None:
    assert goal("gain_percent", 3) == Goal("the goal", None, "not measured")


def test_a_goal_about_waits_is_left_out_where_the_change_acts_on_copies_or_there_were_none() -> None:
    fewer = GoalRule("fewer waits", "syncs_drop_percent", 90, "", "")
    copies = replace(scheme("a"), edits=(Edit("async-copy", ("s1",)),))
    windows = {"before": {"syncs_per_step": 2.0}, "after": {"syncs_per_step": 2.0}}
    assert [made.text for made in stage((copies,), trial("a", **windows), goals=(fewer, GAIN)).goals] == ["3 % faster"]
    none = {"before": {"syncs_per_step": 0.0}, "after": {"syncs_per_step": 0.0}}
    assert stage((scheme("a"),), trial("a", **none), goals=(fewer, GAIN)).goals[0].text == "3 % faster"
    assert stage((scheme("a"),), trial("a", **windows), goals=(fewer, GAIN)).goals[0].met is False


@pytest.mark.parametrize(
    ("metric", "at_least", "met", "evidence"),
    [
        ("gain_percent", 25, True, "a: +25 %, measured"),
        ("gain_percent", 26, False, "a: +25 %, measured"),
        ("syncs_drop_percent", 90, True, "a: 90 %, measured"),
        ("host_wait_drop_percent", 0, False, "a: up by 50 %, measured"),
        ("cpu_percent", 80, False, "a: 70 %, measured"),
        ("gpu_percent", 90, True, "a: 95 %, measured"),
    ],
)
def test_a_goal_is_held_against_what_was_measured(metric: str, at_least: float, met: bool, evidence: str) -> None:
    before = {"syncs_per_step": 2.0, "sync_wait_us_per_step": 100.0}
    after = {
        "syncs_per_step": 0.2, "sync_wait_us_per_step": 150.0, "cpu_busy_share": 0.7, "gpu_busy_share": 0.95,
    }  # fmt: skip
    assert goal(metric, at_least, trial("a", 0.8, before=before, after=after)) == Goal("the goal", met, evidence)


@pytest.mark.parametrize("before", [{}], ids=["not recorded"])
def test_a_drop_of_nothing_is_not_measured(before: dict[str, float]) -> None:
    measured = trial("a", before=before, after={"syncs_per_step": 0.0})
    assert goal("syncs_drop_percent", 90, measured) == Goal("the goal", None, "not measured")


def test_of_several_trials_the_fastest_with_equal_numbers_counts() -> None:
    wrong = trial("b", 0.5, "different numbers")
    assert goal("gain_percent", 3, trial("a", 0.8), wrong).evidence == "a: +25 %, measured"
    assert goal("gain_percent", 3, trial("a", 0.8), trial("b", 0.625)).evidence == "b: +60 %, measured"


# ----------------------------------------------------------------------------------------------------- what is next


def test_a_scheme_that_pays_is_verified_and_then_applied() -> None:
    schemes = (scheme("a", rank=2), scheme("b", rank=1))
    assert stage(schemes).command == ("verify", "b")
    slow = GoalRule("twice as fast", "gain_percent", 100, "", "")
    assert stage(schemes, trial("b"), goals=(slow,)).command == ("apply", "b")
    assert stage(schemes, trial("a"), goals=(slow,)).command == ("verify", "b")


def test_a_stage_whose_goals_are_met_is_over() -> None:
    assert stage((scheme("a", rank=1),), trial("a")).advice == "stop: every goal of this stage is met"


def test_a_trial_of_a_scheme_that_no_longer_pays_ends_the_stage() -> None:
    ended = stage((scheme("a", pays=False),), trial("a", 1.0, "no change"))
    assert (ended.advice, ended.command) == ("stop: a was measured: no change", None)


def test_a_stage_without_a_scheme_that_pays_is_skipped_with_the_first_reason() -> None:
    assert stage((scheme("a", "nothing waits", pays=False),)).advice == "skip: nothing waits"
    assert stage(()).advice == "skip: no lever of it was considered"


def test_a_stage_that_does_not_apply_has_no_goals() -> None:
    wanted = (GoalRule("faster", "gain_percent", 3, "", ""),)
    assert stage((scheme("a", "nothing waits", pays=False),), goals=wanted).goals == ()
    assert stage((scheme("a", rank=1),), goals=wanted).goals == (Goal("faster", None, "not measured"),)


def test_an_open_question_is_not_a_reason_to_skip() -> None:
    open_question = replace(scheme("a", "no replay could be made", pays=False), applicable=True)
    assert stage((open_question,)).advice == "not judged: no replay could be made"
