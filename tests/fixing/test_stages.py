"""What `fix` makes of a budget: steps per process that leave room for a verdict."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from tracelens import trials
from tracelens.fixing import stages
from tracelens.fixing.judgement import Judgement
from tracelens.verify.request import Pace, seconds_needed


@pytest.mark.parametrize(
    ("left_s", "steps"), [(2000.0, 200), (900.0, 100), (700.0, 50), (500.0, 50), (400.0, 25), (1.0, 25)]
)
def test_a_short_budget_takes_steps_from_each_process_before_it_gives_up(
    left_s: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven processes of 10 s and half a second per step: 1210 s with 200 steps, 247 with 25; a quarter is left over,
    because two originals may differ and run once more."""
    diagnosis: Any = SimpleNamespace(steps=SimpleNamespace(best_known_ns=500_000_000))
    monkeypatch.setattr(trials, "start_seconds", lambda _: 10.0)
    options: Any = SimpleNamespace(left_s=left_s)
    chosen = stages._steps(diagnosis, options)
    assert chosen == steps
    assert left_s < 400 or 1.25 * seconds_needed(Pace(10.0, 0.5), chosen) <= left_s


def test_what_is_left_counts_from_the_start_of_the_command() -> None:
    began = time.monotonic() - 100
    options = stages.FixOptions(began, 300.0, 0, None, print, print, print, print)  # type: ignore[arg-type]
    assert options.left_s == pytest.approx(200, abs=5)


@pytest.mark.parametrize(
    ("standing", "left_s", "measured"),
    [("undecided", 500.0, True), ("undecided", 60.0, False), ("nothing", 500.0, True)],
)
def test_where_nothing_keeps_the_results_what_rounds_otherwise_is_measured_in_the_time_that_is_left(
    standing: Any, left_s: float, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two levers take seven processes of 10 s."""
    tried: list[tuple[str, ...]] = []
    monkeypatch.setattr(trials, "start_seconds", lambda _: 10.0)
    monkeypatch.setattr(stages.choice, "rounding_untried", lambda *_: ("compile", "fused"))
    monkeypatch.setattr(stages.lever_trials, "plan", lambda _, __, names: names)
    monkeypatch.setattr(
        stages.lever_trials, "run_plan", lambda _, names, __: tried.append(names) or SimpleNamespace(interrupted=False)
    )
    told = stages.FixResult(Judgement("undecided", "compile made it 1.4 times as fast"))
    monkeypatch.setattr(stages, "_nothing_possible", lambda diagnosis, *_: told if diagnosis == "again" else None)
    diagnosis: Any = SimpleNamespace(steps=SimpleNamespace(best_known_ns=1_000_000))
    began = time.monotonic() + left_s - 600
    options = stages.FixOptions(began, 600.0, 0, None, print, print, print, lambda: "again")  # type: ignore[arg-type, return-value]
    told_before = stages.choice.Unfixed(standing == "nothing", "No change that keeps the results was found for it.")
    before = stages.FixResult(Judgement(standing, told_before.reason), unfixed=told_before)
    found = stages._with_other_rounding(diagnosis, (), before, options)
    assert tried == ([("compile", "fused")] if measured else [])
    assert found is (told if measured else before)
