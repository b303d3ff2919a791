"""What every screen says of steps that take much longer than the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jsonschema

from tests.support import report_cases
from tests.support.schemas import SCHEMA
from tracelens.model import Lever, Location, Owner, PlannedDiagnosis, Run, SlowSteps, Speedup
from tracelens.report import first_screen, markdown, next_commands, rare_steps
from tracelens.report import json as json_report

MS = 1_000_000
CLAUSE = (
    "train.py:12 (torch.save) takes 30.6 ms at every 10th step: 2.9 ms per step on average, 23 % of the training time"
)
SAVE = Owner(
    "host_line", 0, (Location("train.py", 12),), "torch.save",
    recoverable_ns=2_900_000, low_ns=2_800_000, high_ns=3_300_000, evidence="measured", occurrences=17,
    remedies=("line", "rarer-checkpoints"),
)  # fmt: skip
SLOW = SlowSteps(17, 177, 10, 9_500_000, 12_700_000, 34 * MS, 3_220_000, 3_100_000, 3_640_000, 0.9)
LEVER = Lever("rarer-checkpoints", "host", "not_tried", "Save less often", "save every 500 steps")


def with_saves() -> PlannedDiagnosis:
    base = report_cases.recommended()
    owners = replace(base.owners, owners=(*base.owners.owners, SAVE), slow=SLOW)
    steps = replace(base.steps, unprofiled_mean_ns=12_700_000)
    scheme = Lever(
        base.recommendation.scheme or "", "scheme", "predicted", "", "", rank=1, predicted=Speedup(1.2, 1.1, 1.3)
    )
    return replace(base, owners=owners, steps=steps, rare_cost=CLAUSE, levers=(scheme, LEVER))


def test_the_first_line_says_both_step_times_where_they_differ() -> None:
    assert "9.50 ms per step (mean 12.7)" in first_screen.subject(with_saves())
    near = replace(with_saves(), steps=replace(with_saves().steps, unprofiled_mean_ns=9_700_000))
    assert "mean" not in first_screen.subject(near)


def test_the_cost_and_what_helps_stand_beside_what_is_recommended() -> None:
    screen = first_screen.first_screen(with_saves())
    assert screen.rare == (f"{CLAUSE}.", "What helps at train.py:12: save every 500 steps.")
    assert screen.instead.startswith("In an ordinary step "), "a gain is of the step that it was predicted of"
    assert CLAUSE in markdown.summary(with_saves()).replace("\\", "")


def test_what_is_said_already_is_not_said_twice() -> None:
    assert rare_steps.said(with_saves(), f"T{CLAUSE[1:]}; and more.") == (
        "What helps at train.py:12: save every 500 steps.",
    )
    assert rare_steps.said(report_cases.recommended(), "") == ()


def test_json_has_the_pattern_and_whose_it_is() -> None:
    document = json_report.document(with_saves())
    jsonschema.validate(document, SCHEMA)
    assert (document["slow_steps"]["seen"], document["slow_steps"]["every_steps"]) == (17, 10)
    owner = document["owners"][-1]
    assert (owner["occurrences"], owner["every_steps"], owner["us_per_step"]) == (17, 10, 0)
    assert owner["recoverable_us_per_step"] == 2900
    assert document["steps"]["unprofiled_mean_us"] == 12700
    plain = json_report.document(report_cases.recommended())
    assert plain["slow_steps"] is None and {one["occurrences"] for one in plain["owners"]} <= {None}


def test_where_slow_steps_cost_most_the_edit_by_hand_is_recorded_and_nothing_of_an_ordinary_step_is_tried() -> None:
    run = Run(Path("tracelens-runs/r1"), ("python", "train.py"), Path("train.py").resolve(), Path.cwd(), True, ())
    base = report_cases.planned(run=run)
    owners = replace(base.owners, owners=(*base.owners.owners, SAVE), slow=SLOW)
    untried = Lever("compile=default", "compile", "not_tried", "", "", command="try compile=default")
    plain = replace(base, levers=(untried, LEVER), headline_kind="loss")
    assert next_commands.next_command(plain).startswith("tracelens try")
    led = replace(plain, owners=owners, rare_cost=CLAUSE, rare_cost_leads=True)
    assert next_commands.next_command(led) == next_commands.record_again(led)
    unseen = replace(SLOW, explained=0.0, reason="record again with --steps 20", record_steps=20)
    longer = next_commands.next_command(replace(led, owners=replace(owners, slow=unseen)))
    assert longer.startswith("tracelens profile --steps 20 ")
