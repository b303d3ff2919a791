"""What the machine did besides: told where the script did not have it for itself, and on every screen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support import report_cases as cases
from tracelens.model import IllustratedDiagnosis
from tracelens.report import json
from tracelens.report.first_screen import first_screen
from tracelens.report.shared_machine import shared_machine
from tracelens.report.training_window import training_window

SECOND = 1_000_000_000


def sampled(rows: list[dict[str, Any]], every_ns: int = 0, **environment: Any) -> IllustratedDiagnosis:
    """A recording on four cores, with `rows` spread over its training, or one `every_ns` from its begin on."""
    case = cases.recommended()
    assert case.run is not None
    timeline = replace(case.timeline, trace=replace(case.timeline.trace, base_unix_ns=1_000 * SECOND))
    run = replace(case.run, meta={**case.run.meta, "environment": {"cpu_count": 4, **environment}})
    case = replace(case, timeline=timeline, run=run)
    begun, ended = training_window(case) or (0, 0)
    apart = every_ns or (ended - begun) // len(rows)
    return replace(case, monitor=tuple({"unix_ns": begun + n * apart, **row} for n, row in enumerate(rows)))


def cpu(of_all: float, own: float, **more: Any) -> dict[str, Any]:
    return {"cpu_percent": of_all, "process_cpu_percent": own, **more}


def test_other_programs_are_told_where_no_core_is_left_free() -> None:
    busy = sampled([cpu(100, 150)] * 5)
    assert shared_machine(busy).cores_of_others == pytest.approx(2.5)
    told = "Other programs took 2.5 of the machine's 4 cores meanwhile"
    assert first_screen(busy).machine[0].startswith(told)
    assert json.document(busy)["machine"]["cores_of_others"] == pytest.approx(2.5)


@pytest.mark.parametrize(
    "row",
    [
        cpu(100, 390),  # the script has all cores itself
        cpu(60, 100),  # cores were left free
        {"cpu_percent": 100.0},  # nobody knows whose
    ],
)
def test_nothing_is_told_where_the_script_has_what_it_wants(row: dict[str, Any]) -> None:
    assert shared_machine(sampled([row] * 5)).said() == ()
    assert shared_machine(sampled([row] * 2)).said() == (), "too few samples for a mean"


def test_a_cpu_limit_is_told_by_the_share_of_its_periods() -> None:
    rows = [cpu(30, 100, cpu_limit_periods=100 + 10 * n, cpu_limit_stopped=7 * n // 2) for n in range(5)]
    limited = shared_machine(sampled(rows))
    assert limited.stopped_share == pytest.approx(14 / 40)
    assert "stopped the script in 35 % of its periods" in limited.said()[0]
    never = [cpu(30, 100, cpu_limit_periods=100 + 10 * n, cpu_limit_stopped=3) for n in range(5)]
    assert shared_machine(sampled(never)).said() == ()


def test_a_gpu_that_was_busy_before_the_script_can_use_it_is_somebody_elses() -> None:
    rows = [{"gpus": [{"utilization": 80.0}]}, {"gpus": [{"utilization": 99.0}]}]
    assert shared_machine(sampled(rows, SECOND)).said() == (
        "The GPU was 80 % busy before the script began: another program uses it.",
    )
    several = [{"gpus": [{"utilization": 80.0}, {"utilization": 0.0}]}]
    assert shared_machine(sampled(several)).said() == ()
    given = sampled(rows, variables={"CUDA_VISIBLE_DEVICES": "3"})
    assert shared_machine(given).said() == ()
