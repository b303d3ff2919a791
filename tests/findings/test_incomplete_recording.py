"""An incomplete recording: which part of it was judged, and what it cannot tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support import report_cases as cases
from tracelens.findings import incomplete_recording
from tracelens.findings.incomplete_recording import HINT
from tracelens.model import Abstention, Coverage, InventoryItem
from tracelens.report import wording

CUT = "the file ends early"
ROWS = "the GPU rows are missing: none of the 5 launches and copies has one"
PART = Coverage(CUT, (2_000_000, 12_000_000), complete_steps=2, steps=3)
NOTHING = Coverage(CUT, None, 0, 3)


def test_a_whole_recording_is_judged_without_a_word() -> None:
    assert incomplete_recording.unjudged("idle_gpu", Coverage()) is None
    assert incomplete_recording.abstentions(cases.timeline(), (cases.trace(),)) == ()


def test_a_question_is_asked_of_the_steps_that_are_complete() -> None:
    assert incomplete_recording.unjudged("idle_gpu", PART) is None


def test_without_a_complete_step_no_question_is_answered() -> None:
    told = Abstention("idle_gpu", "the file ends early, and no step is complete on host and GPU", HINT)
    assert incomplete_recording.unjudged("idle_gpu", NOTHING) == told


def test_the_part_that_was_judged_is_told() -> None:
    (told,) = incomplete_recording.abstentions(replace(cases.timeline(), coverage=PART), (cases.trace(),))
    assert told.missing == (
        "the file ends early; 2 of the 3 steps in it are complete on host and GPU and are judged "
        "(from 2.00 ms to 12.00 ms of the recording)"
    )


def test_a_recording_without_a_complete_step_says_that_nothing_is_judged() -> None:
    (told,) = incomplete_recording.abstentions(replace(cases.timeline(), coverage=NOTHING), (cases.trace(),))
    assert told.missing.endswith("nothing that depends on the missing rows is judged")


def test_of_another_rank_only_its_missing_rows_are_told() -> None:
    own = cases.trace()
    lacking = replace(own.completeness, launches=5, unmatched_launches=5)
    second = replace(own, path=Path("other.json"), rank=1, completeness=lacking)
    nameless = replace(second, path=Path("third.json"), rank=None)
    told = incomplete_recording.abstentions(cases.timeline(), (own, second, nameless))
    assert [one.missing for one in told] == [f"rank 1: {ROWS}", f"another file: {ROWS}"]


def test_what_an_incomplete_file_does_not_show_may_be_in_the_missing_part() -> None:
    there = InventoryItem("pinned_memory", True, "3 pinned copies")
    absent = InventoryItem("copy_stream", False, "one stream")
    assert incomplete_recording.without_absences((there, absent), Coverage()) == (there, absent)
    unknown = replace(absent, present=None, evidence="the file ends early; in what is there: one stream")
    assert incomplete_recording.without_absences((there, absent), PART) == (there, unknown)


def test_what_is_said_of_a_part_says_so() -> None:
    whole = cases.diagnosis()
    part = replace(whole, timeline=replace(whole.timeline, coverage=Coverage(CUT, (0, 1), 6, 8)))
    part = replace(part, steps=replace(whole.steps, count=6))
    assert wording.step_count(part) == "6 of 8 steps"
    assert wording.verdict(part) == f"Of 6 of 8 steps: {wording.verdict(whole)}"
    assert wording.step_count(replace(part, timeline=whole.timeline)) == "6 steps"
    assert wording.step_count(replace(whole, steps=replace(whole.steps, count=1))) == "1 step"
