"""What `fix` says where no lever keeps the results: what `try` measured with another rounding is the next word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tracelens.fixing import choice
from tracelens.model import Lever, LeverCombination, LeverNumbers, Speedup
from tracelens.schemes import rules

RULES = rules.load().levers


def measured(name: str, speedup: float, numbers: LeverNumbers = "inside_seed_band") -> Lever:
    gain = Speedup(speedup, speedup - 0.05, speedup + 0.05)
    return Lever(name, "precision", "measured", name, "", measured=gain, numbers=numbers)


def diagnosis(*levers: Lever, combination: LeverCombination | None = None) -> Any:
    return SimpleNamespace(levers=levers, combination=combination)


@pytest.mark.parametrize(
    ("levers", "found"),
    [
        ((measured("bf16", 2.0), measured("tf32", 1.5)), ("bf16",)),
        ((measured("compile=reduce-overhead", 1.3), measured("workers=4", 3.0, "same")), ("compile=reduce-overhead",)),
        ((measured("bf16", 2.0, "outside_seed_band"), measured("fused", 1.02)), ()),
        ((measured("fp16", 2.0), measured("foreach", 1.2)), ()),
        ((measured("fused", 1.2, "same"),), ("fused",)),
        ((), ()),
    ],
)
def test_the_fastest_that_a_recipe_writes_and_that_stays_within_what_seeds_do(
    levers: tuple[Lever, ...], found: tuple[str, ...]
) -> None:
    assert choice.rounding_gains(diagnosis(*levers), RULES) == found


def test_several_together_where_they_were_measured_together() -> None:
    levers = measured("bf16", 2.0), measured("fused", 1.2), measured("workers=4", 1.5, "same")
    best = LeverCombination(("bf16", "fused"), Speedup(2.3, 2.2, 2.4), "inside_seed_band", None)
    assert choice.rounding_gains(diagnosis(*levers, combination=best), RULES) == ("bf16", "fused")
    mixed = LeverCombination(("bf16", "workers=4"), Speedup(2.8, 2.7, 2.9), "inside_seed_band", None)
    assert choice.rounding_gains(diagnosis(*levers, combination=mixed), RULES) == ("bf16",)


def test_it_is_said_after_what_keeps_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = choice.Unfixed(True, "The GPU is busy for all of the step.")
    monkeypatch.setattr(choice, "_with_same_results", lambda *_: kept)
    found = choice.without_change(diagnosis(measured("bf16", 2.0)), RULES)
    assert found.fix_next == ("bf16",) and found.fine
    assert found.reason == (
        "The GPU is busy for all of the step. Rounding otherwise, bf16 made the step 2.00 times as fast when tried, "
        "with losses that differ as much as other seeds' do."
    )
    assert choice.without_change(diagnosis(), RULES) is kept


def test_the_same_results_are_not_called_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_with_same_results", lambda *_: choice.Unfixed(False, "Launch-bound."))
    found = choice.without_change(diagnosis(measured("fused", 1.2, "same")), RULES)
    assert found.reason == (
        "Launch-bound. fused optimizer made the step 1.20 times as fast when tried, with the same results."
    )


def test_what_rounds_otherwise_and_gained_nothing_is_said_too(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = choice.Unfixed(False, "No change that keeps the results was found for it.", "batch=2x")
    monkeypatch.setattr(choice, "_with_same_results", lambda *_: kept)
    found = choice.without_change(diagnosis(measured("compile", 1.02), measured("workers=4", 3.0, "same")), RULES)
    assert found.reason == (
        "No change that keeps the results was found for it. Rounding otherwise, torch.compile gained nothing beyond "
        "doubt when tried."
    )
    assert found.try_next == "batch=2x"
