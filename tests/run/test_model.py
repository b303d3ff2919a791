"""The values that check themselves."""

from __future__ import annotations

import dataclasses

import pytest

from tracelens import errors, model


def parts(**given: int) -> dict[str, int]:
    return dict.fromkeys(model.BREAKDOWN_PARTS, 0) | given


def test_a_breakdown_whose_parts_add_up_is_accepted() -> None:
    breakdown = model.Breakdown(wall_ns=1_000, parts=parts(compute=700, idle_sync=300))
    assert breakdown.parts["compute"] == 700


def test_a_breakdown_that_lost_time_is_refused() -> None:
    with pytest.raises(ValueError, match="add up to 900 ns"):
        model.Breakdown(wall_ns=1_000, parts=parts(compute=700, idle_sync=200))


def test_a_breakdown_with_less_than_no_time_in_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="are not all times"):
        model.Breakdown(wall_ns=1_000, parts=parts(compute=1_100, idle_other=-100))


def test_a_breakdown_with_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="breakdown parts"):
        model.Breakdown(wall_ns=1, parts={"compute": 1})


def test_an_estimate_knows_its_speedup_and_its_noise() -> None:
    estimate = model.Estimate(
        base_ns=200, step_ns=160, low_ns=150, high_ns=170, binding="host", basis="unprofiled", evidence="replayed"
    )
    assert estimate.speedup == 1.25
    assert estimate.noise_ns == 10


def test_a_location_reads_like_a_compiler_message() -> None:
    assert str(model.Location("train.py", 88, "main")) == "train.py:88"
    assert str(model.Location("train.py", None)) == "train.py"


def test_every_noun_is_frozen() -> None:
    nouns = [value for value in vars(model).values() if dataclasses.is_dataclass(value)]
    assert len(nouns) > 25
    assert [noun.__name__ for noun in nouns if not noun.__dataclass_params__.frozen] == []


def test_exit_codes_are_the_contract() -> None:
    codes = {
        error: error.exit_code
        for error in (errors.InputError, errors.UsageError, errors.RuleError, errors.Refused, errors.Inconclusive)
    }
    assert list(codes.values()) == [4, 2, 2, 1, 3]


def test_a_rule_error_shows_every_mistake() -> None:
    error = errors.RuleError(("a.yaml: id: expected text", "b.yaml: prior: expected a mapping"))
    assert "2 mistakes" in str(error)
    assert "a.yaml: id" in str(error)
    assert "b.yaml: prior" in str(error)
