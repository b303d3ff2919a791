"""The tolerance from other seeds: known answers, the rate of false alarms, and what it must never miss."""

import json
import math
import random

import pytest

from tracelens.verify.compare import seed_tolerance


def curve(dice, steps=200, noise=0.05, shift=0.0):
    """A falling loss with noise from batch to batch, and an offset of the whole run as seeds give it."""
    offset = dice.gauss(0, 0.02)
    return [2 * math.exp(-step / 60) + 0.3 + offset + shift + dice.gauss(0, noise) for step in range(steps)]


def test_band_of_three_constant_curves_is_worked_out_by_hand():
    originals = [[1.0] * 40, [2.0] * 40, [3.0] * 40]
    found = seed_tolerance.judge(originals, [2.5] * 40, 40, 10)
    half = 4.303 * math.sqrt(1 + 1 / 3)
    only = found.curves[0]
    assert found.verdict == "within seed noise"
    assert only.low == pytest.approx([2 - half] * 4)
    assert only.high == pytest.approx([2 + half] * 4)
    assert only.tail == pytest.approx((2 - half, 2 + half, 2.5))
    assert seed_tolerance.judge(originals, [2 + half + 0.01] * 40, 40, 10).verdict == "diverges"


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
def test_another_seed_of_the_original_is_rarely_called_diverging(seeds):
    dice = random.Random(3)
    wolf = 0
    for _ in range(400):
        found = seed_tolerance.judge([curve(dice) for _ in range(seeds)], curve(dice), 200, 10)
        wolf += found.verdict == "diverges"
    assert wolf / 400 < 0.10


def test_a_run_that_learns_something_else_is_not_missed():
    dice = random.Random(4)
    seen = sum(
        seed_tolerance.judge([curve(dice) for _ in range(3)], curve(dice, shift=0.5), 200, 10).verdict == "diverges"
        for _ in range(50)
    )
    assert seen == 50


def test_a_nan_diverges_and_the_document_is_json():
    dice = random.Random(5)
    patched = curve(dice)
    patched[150:] = [math.nan] * 50
    found = seed_tolerance.judge([curve(dice) for _ in range(3)], patched, 200, 10)
    assert found.verdict == "diverges"
    assert "nan" in json.dumps(found.document(), allow_nan=False)


def test_where_the_original_is_not_finite_nothing_is_outside():
    wild = [[1.0 + seed] * 30 + [math.nan] * 10 for seed in range(3)]
    assert seed_tolerance.judge(wild, [2.0] * 30 + [math.nan] * 10, 40, 10).verdict == "within seed noise"
    assert seed_tolerance.judge(wild, [2.0] * 10 + [math.nan] * 30, 40, 10).verdict == "diverges"
    assert seed_tolerance.judge(wild, [2.0] * 40, 40, 10).verdict == "within seed noise"


def test_two_losses_of_a_step_are_two_curves():
    dice = random.Random(6)

    def both(shift=0.0):
        first, second = curve(dice), curve(dice, shift=shift)
        return [value for pair in zip(first, second, strict=True) for value in pair]

    found = seed_tolerance.judge([both() for _ in range(3)], both(shift=1.0), 200, 10)
    assert [one.diverges for one in found.curves] == [False, True]
    assert found.shown is found.curves[1]


def test_seeds_that_change_nothing_and_curves_that_are_too_short_give_no_verdict():
    same = seed_tolerance.judge([[1.0] * 40] * 3, [9.0] * 40, 40, 10)
    short = seed_tolerance.judge([[1.0] * 30, [2.0] * 30, [3.0] * 30], [1.0] * 30, 30, 10)
    assert (same.verdict, short.verdict) == (None, None)
    assert "seeds change nothing" in same.reason
    assert "too few" in short.reason


def test_losses_of_a_record_are_its_single_numbers():
    rank = {
        "losses": [{"shape": [], "first": [0.5]}, {"shape": [3], "first": [1, 2, 3]}, {"shape": [1], "first": ["nan"]}]
    }
    found = seed_tolerance.losses_of(rank)
    assert found[0] == 0.5 and math.isnan(found[1]) and len(found) == 2
