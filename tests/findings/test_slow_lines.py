"""At which line a slow step spends what an ordinary one does not take."""

from __future__ import annotations

from tracelens.findings.owners.slow_lines import lines
from tracelens.model import Location

LOOP, STEP, SAVE, EVALUATE = (Location("train.py", line, "main") for line in (10, 12, 20, 21))
FORWARD, INNER = Location("model.py", 5, "forward"), Location("train.py", 40, "evaluate")
ORDINARY = {(STEP,): 8.0, (STEP, FORWARD): 2.0}


def test_a_statement_that_ordinary_steps_do_not_run_is_named_with_all_that_it_calls() -> None:
    slow = {**ORDINARY, (EVALUATE, INNER): 10.0, (EVALUATE, INNER, FORWARD): 30.0}
    (line,) = lines([slow], [ORDINARY])
    assert (line.location, line.part, line.alone) == (EVALUATE, 1.0, True)
    assert line.function == "evaluate", "print(evaluate()) is not about print"


def test_two_statements_share_what_the_step_takes_longer() -> None:
    slow = {**ORDINARY, (SAVE,): 30.0, (EVALUATE,): 9.0, (LOOP,): 1.0}
    found = lines([slow], [ORDINARY, ORDINARY])
    assert [(line.location, line.part) for line in found] == [(SAVE, 0.75), (EVALUATE, 0.225)]
    assert [line.function for line in found] == [None, None]


def test_a_line_of_every_step_that_takes_longer_now_and_then_is_the_innermost() -> None:
    slow = {(STEP,): 8.0, (STEP, FORWARD): 32.0}
    (line,) = lines([slow], [ORDINARY])
    assert (line.location, line.part, line.alone) == (FORWARD, 1.0, False)


def test_what_no_line_was_seen_for_is_nobodys() -> None:
    (line,) = lines([{**ORDINARY, (): 10.0, (SAVE,): 30.0}], [ORDINARY])
    assert (line.location, line.part) == (SAVE, 0.75)


def test_without_both_kinds_of_steps_nothing_is_known() -> None:
    assert lines([], [ORDINARY]) == lines([ORDINARY], []) == lines([ORDINARY], [ORDINARY]) == ()
