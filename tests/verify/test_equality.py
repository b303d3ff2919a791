"""Which trial allows a hunk that is not proved: one of the very same bytes that found everything equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.verifying import TRAIN, one_process, script
from tracelens.model import FilePatch, Hunk, Location, Patch, Verification
from tracelens.run import sha256
from tracelens.verify.equality import NOT_VERIFIED, TrialSubject, checked, patch_document

WHERE = Location("train.py", 9)
HUNKS = (
    Hunk("TL101", "defer-read", "checked", WHERE, "later", "", (), "who reads `history` is not known"),
    Hunk("TL201", "event-sync", "safe", WHERE, "an event", ""),
)


def patch(root: Path, after: bytes = b"after\n", before: bytes | None = b"before\n") -> Patch:
    return Patch(root, (FilePatch(root / "train.py", before, after),), HUNKS, (), "")


def trial(of: Patch, **changes: Any) -> Verification:
    numbers = {
        "compared": {"settings": 6, "unreadable_tensors": 0},
        "output_compared": True,
        "first_difference": None,
    }
    details = {
        "date": "2026-11-22T11:00:00+00:00",
        "patch": patch_document(of),
        "sources": {},
        "steps": 200,
        "interval": 10,
        "environment": {"device": "NVIDIA H200"},
        "numbers": numbers | changes.pop("numbers", {}),
    }
    equal, verdict = changes.pop("numbers_equal", True), "Same results, bit for bit."
    return Verification("event-interval", "faster", equal, None, None, None, None, verdict, details | changes)


def test_an_equal_trial_of_these_bytes_marks_what_is_not_proved(tmp_path: Path) -> None:
    marked = checked(patch(tmp_path), [trial(patch(tmp_path))], TrialSubject(tmp_path, "NVIDIA H200"))
    assert [hunk.checked for hunk in marked.hunks] == ["equal over 200 steps by verify of 2026-11-22", ""]
    assert marked.unchecked == () and marked.unchecked_because == ""


def test_the_newest_equal_trial_counts(tmp_path: Path) -> None:
    trials = [trial(patch(tmp_path), steps=100), trial(patch(tmp_path), steps=300), trial(patch(tmp_path), steps=10)]
    assert "300 steps" in checked(patch(tmp_path), trials, TrialSubject(tmp_path, "NVIDIA H200")).hunks[0].checked


@pytest.mark.parametrize("other", [{"after": b"other\n"}, {"before": b"other\n"}, {"before": None}])
def test_a_trial_of_other_bytes_says_nothing(other: dict[str, bytes | None], tmp_path: Path) -> None:
    own = checked(patch(tmp_path), [trial(patch(tmp_path, **other))], TrialSubject(tmp_path, "NVIDIA H200"))  # type: ignore[arg-type]
    assert own.unchecked == HUNKS[:1] and own.unchecked_because == NOT_VERIFIED


OBJECTIONS = {
    "other numbers": ({"numbers_equal": False}, "found a difference: Same results, bit for bit"),
    "other output of an unsafe change": ({"numbers": {"first_difference": {"part": "output"}}}, "found a difference"),
    "no result": ({"numbers_equal": None}, "came to no result"),
    "output not compared": ({"numbers": {"output_compared": False}}, "could not compare what the script prints"),
    "of an earlier TraceLens": ({"numbers": {"compared": {}}}, "did not compare learning rates"),
    "a sparse tensor": ({"numbers": {"compared": {"settings": 1, "unreadable_tensors": 1}}}, "could not read every"),
    "too few steps": ({"steps": 39, "interval": 20}, "made 39 steps, and 40 are needed"),
    "another GPU": ({"environment": {"device": "cpu"}}, "ran on cpu, and the recording on NVIDIA H200"),
    "an edit meanwhile": ({"writes": {"changed_meanwhile": ["helper.py"]}}, "sources changed while"),
    "another helper": ({"sources": {"helper.py": sha256(b"was\n")}}, "helper.py is not what"),
    "a helper that is gone": ({"sources": {"gone.py": sha256(b"was\n")}}, "gone.py is not what"),
}


@pytest.mark.parametrize("case", OBJECTIONS)
def test_a_trial_that_did_not_find_everything_equal_says_why(case: str, tmp_path: Path) -> None:
    changes, said = OBJECTIONS[case]
    (tmp_path / "helper.py").write_bytes(b"is\n")
    own = checked(patch(tmp_path), [trial(patch(tmp_path), **changes)], TrialSubject(tmp_path, "NVIDIA H200"))
    assert own.unchecked and said in own.unchecked_because and "2026-11-22" in own.unchecked_because


def test_a_project_as_it_was_is_no_objection(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_bytes(b"was\n")
    sources = {"helper.py": sha256(b"was\n")}
    assert not checked(
        patch(tmp_path), [trial(patch(tmp_path), sources=sources)], TrialSubject(tmp_path, "NVIDIA H200")
    ).unchecked


def test_a_proved_patch_needs_no_trial(tmp_path: Path) -> None:
    proved = replace(patch(tmp_path), hunks=HUNKS[1:])
    assert checked(proved, [], TrialSubject(tmp_path, None)) is proved


@pytest.mark.programs
def test_a_trial_names_the_sources_of_the_project_that_it_ran(project: Path) -> None:
    path = script(project, "import helper\n" + TRAIN)
    (project / "helper.py").write_text("import json\n")
    (project / "unused.py").write_text("")
    record, _ = one_process(path, mode="numbers", steps=20)
    assert record.ranks[0]["sources"] == [str(project / "helper.py"), str(path)]
    assert {"name": "optimizer 0 group 0 lr", "changes": [[1, 0.1]]} in record.ranks[0]["settings"]
