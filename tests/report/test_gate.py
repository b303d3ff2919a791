"""Gates: what is a slowdown beyond noise, what is comparable, what is within its budget."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tracelens.model import Stall
from tracelens.report import budget, compare

# --------------------------------------------------------------------------------------------- compare, budget


def slower(by: float) -> list[int]:
    return [round(by * (10_000_000 + 10_000 * (k % 5))) for k in range(20)]


@pytest.mark.parametrize(("factor", "judgment"), [(1.0, "not slower"), (1.2, "slower"), (0.8, "not slower")])
def test_the_gate_fails_only_for_a_slowdown_beyond_noise_and_tolerance(factor: float, judgment: str) -> None:
    ratio = compare._ratio([slower(1.0)], [slower(factor)])
    found = replace(compare.compare_diagnoses(cases.diagnosis(), cases.diagnosis()), ratio=ratio)
    assert found.judgment == judgment
    assert ratio is not None and ratio.low <= ratio.value <= ratio.high


def test_three_steps_decide_nothing_and_another_gpu_is_not_comparable() -> None:
    same = compare.compare_diagnoses(cases.diagnosis(), cases.diagnosis())
    assert same.ratio is None and same.judgment == "inconclusive"
    other = compare.compare_diagnoses(cases.diagnosis(), cases.diagnosis(timeline=cases.timeline("A100")))
    assert other.obstacles == ("device: NVIDIA H200 against A100",)


def test_calls_for_memory_while_the_gpu_idles_count_as_exposed_waits() -> None:
    """A loop without a pool of memory: the replay sees no wait to remove, and 800 ms of a step are spent in hipFree."""
    freeing = Stall("s1", "hipFree", "alloc", 181.0, 800_000_000, 740_000_000, None, "unknown", None)
    diagnosis = replace(cases.diagnosis(), stalls=(freeing,))
    (item,) = budget.judge_budgets(diagnosis, budget.Budgets(exposed_ms=1.0), 0)
    assert (item.value, item.within) == (740.0, False)
    unknown = replace(diagnosis, stalls=(replace(freeing, gpu_idle_ns=None),))
    assert budget.judge_budgets(unknown, budget.Budgets(exposed_ms=1.0), 0)[0].within is None
    assert budget.judge_budgets(diagnosis, budget.Budgets(exposed_ms=1.0), 0, {"s1"})[0].within is True


def test_nothing_is_told_per_step_where_no_step_was_found() -> None:
    """The whole recording stands for a step there: within a budget for one step it would be by chance."""
    base = cases.diagnosis()
    unsure = replace(base, steps=replace(base.steps, source="none"))
    items = budget.judge_budgets(unsure, budget.Budgets(1.0, 1.0, 0.3, 9.6), 0)
    assert [(item.value, item.within) for item in items] == [(None, None), (None, None), (0.25, True), (None, None)]


def test_budgets_say_within_above_and_not_measured() -> None:
    limits = budget.Budgets(syncs_per_step=1.0, exposed_ms=1.0, idle_share=0.3, step_ms=9.6)
    items = budget.judge_budgets(cases.diagnosis(), limits, None)
    idle = pytest.approx(2 / 9.5)  # what 7.5 ms of work leave of the baseline
    assert [(item.value, item.within) for item in items] == [(2.0, False), (None, None), (idle, True), (9.5, True)]
