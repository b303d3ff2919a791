"""Weights at which the winner changes, what choosing by weight gives up, and schemes that may pay nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tracelens.model import CRITERIA, Estimate, Scheme, Score
from tracelens.schemes import weighing

HALVES = {**dict.fromkeys(CRITERIA, 0.0), "performance": 50.0, "risk": 50.0}


def scheme(name: str, scores: Mapping[str, float] | None = None, step_us: int | None = None) -> Scheme:
    """A scheme with a step of `step_us` instead of 1,200."""
    judged = {criterion: Score(value, "patch") for criterion, value in (scores or {}).items()}
    estimate = None
    if step_us is not None:
        estimate = Estimate(1_200_000, step_us * 1000, step_us * 1000, step_us * 1000, "host", "unprofiled", "replayed")
    return Scheme(name, name, (), None, judged, None, None, None, None, estimate, True, ())


FAST = scheme("fast", {"performance": 10, "risk": 4})
CAREFUL = scheme("careful", {"performance": 4, "risk": 8})
"""Totals 7 and 6; with the weight p of performance 10p + 4(1-p) and 4p + 8(1-p), which are equal at p = 0.4."""


# ------------------------------------------------------------------------------------------- where the winner changes


def test_the_winner_changes_where_both_totals_are_equal() -> None:
    found = weighing.sensitivity(FAST, (FAST, CAREFUL), (FAST, CAREFUL), (), HALVES)
    assert found["winner"] == "fast"
    assert found["changes"] == {
        "performance": [{"below": 40.0, "winner": "careful"}],
        "risk": [{"above": 60.0, "winner": "careful"}],
    }


def test_of_several_rivals_the_one_that_wins_first_is_named() -> None:
    """10p + 4(1-p) meets 6p + 7(1-p) at p = 3/7, before it meets CAREFUL at 0.4."""
    nearer = scheme("nearer", {"performance": 6, "risk": 7})
    found = weighing.sensitivity(FAST, (CAREFUL, nearer), (CAREFUL, nearer), (), HALVES)
    assert found["changes"]["performance"] == [{"below": 42.9, "winner": "nearer"}]


def test_a_rival_that_is_worse_in_everything_wins_for_no_weight() -> None:
    worse = scheme("worse", {"performance": 9, "risk": 3})
    assert weighing.sensitivity(FAST, (FAST, worse), (FAST, worse), (), HALVES)["changes"] == {}


def test_a_criterion_that_has_all_the_weight_cannot_be_varied_against_the_rest() -> None:
    alone = {**dict.fromkeys(CRITERIA, 0.0), "performance": 100.0}
    changes = weighing.sensitivity(FAST, (FAST, CAREFUL), (FAST, CAREFUL), (), alone)["changes"]
    assert "performance" not in changes


# --------------------------------------------------------------------------------------------------------- the gains


@pytest.mark.parametrize(("step_us", "gain"), [(1_000, 20.0), (1_200, 0.0), (1_500, -20.0), (None, None)])
def test_the_gain_is_of_the_speed(step_us: int | None, gain: float | None) -> None:
    found = weighing.scheme_gain(scheme("one", step_us=step_us))
    assert found == (None if gain is None else pytest.approx(gain))


def test_the_fastest_is_named_with_what_the_winner_lacks() -> None:
    winner, fastest = scheme("winner", step_us=1_000), scheme("fastest", step_us=800)
    assert weighing.gives_up(winner, (winner, fastest, scheme("unknown"))) == {
        "fastest": "fastest",
        "fastest_gain_percent": 50.0,
        "winner_gain_percent": 20.0,
        "points": 30.0,
    }


def test_a_winner_that_is_as_fast_as_another_is_the_fastest() -> None:
    winner, equal = scheme("winner", step_us=1_000), scheme("equal", step_us=1_000)
    found = weighing.gives_up(winner, (equal, winner))
    assert found is not None
    assert (found["fastest"], found["points"]) == ("winner", 0.0)


def test_without_an_estimate_of_the_winner_nothing_is_compared() -> None:
    assert weighing.gives_up(scheme("winner"), (scheme("other", step_us=1_000),)) is None


# ----------------------------------------------------------------------------------------------- may pay, or not


def rejected(name: str, reason: str, step_us: int) -> Scheme:
    base = scheme(name, step_us=step_us)
    return Scheme(name, name, (), None, {}, None, None, None, None, base.estimate, False, (reason,))


def test_the_most_promising_of_the_uncertain_schemes_is_asked_for() -> None:
    small = rejected("small", f"{weighing.NOT_SURE}: may buy nothing", 1_100)
    large = rejected("large", f"{weighing.NOT_SURE}: may buy nothing", 800)
    useless = rejected("useless", "it buys nothing", 600)
    assert weighing.uncertain((small, large, useless, scheme("fine", step_us=500))) == large
    assert weighing.uncertain((useless,)) is None
