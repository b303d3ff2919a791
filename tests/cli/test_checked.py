"""A patch that is not proved throughout, from the recommendation to the written file: it goes through `verify`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import run_cases as cases
from tests.support.checked_hunks import UNKNOWN, prove_nothing
from tests.support.places import ROOT
from tracelens import pipeline
from tracelens.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.programs, pytest.mark.usefixtures("lean_programs")]

Capture = pytest.CaptureFixture[str]
SCHEMA = json.loads((ROOT / "docs" / "apply.schema.json").read_text())


CHANGE = ("--lever", "event-interval")
"""Its reads are spaced by N, so that another N is another change."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    prove_nothing(monkeypatch, "defer-read")
    return next(Path("tracelens-runs").iterdir())


def applied(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["apply", *words, "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    return document


def on_recorded_device(run: Path) -> None:
    """Say of the trial that it ran on the GPU of the made recording; there is none here."""
    path = run / "verify.json"
    document = json.loads(path.read_text())
    document["entries"][0]["environment"]["device"] = pipeline.open_inputs((run,)).traces[0].device
    path.write_text(json.dumps(document))


def test_what_is_not_proved_is_written_once_verify_has_found_it_equal(run: Path, capsys: Capture) -> None:
    assert main(["recommend", str(run)]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"next: tracelens fix {run}/")
    check = f"verify {run}/ --lever event-interval"
    assert "losses.append(loss.item())\n" not in _removed((run / "tracelens.patch").read_text())

    before = applied(capsys, *CHANGE, str(run), "--dry-run")
    (left,) = before["patch"]["left_out"]
    assert (left["id"], left["tier"], left["unproved"], left["checked"]) == ("TL101", "checked", UNKNOWN, None)
    assert (left["why"], left["run"]) == ("no verify of this patch is in this run", f"tracelens {check}")
    assert [(hunk["id"], hunk["tier"]) for hunk in before["patch"]["hunks"]] == [("TL201", "safe")]

    assert main([*check.split(), "--steps", "24", "--budget", "2s"]) in (0, 3)
    (entry,) = json.loads((run / "verify.json").read_text())["entries"]
    assert entry["numbers_equal"] is True and entry["numbers"]["compared"]["settings"] > 0
    said = f"equal over {entry['steps']} steps by verify of {entry['date'][:10]}"
    (left,) = applied(capsys, *CHANGE, str(run), "--dry-run")["patch"]["left_out"]
    assert "ran on cpu, and the recording on " in left["why"]
    on_recorded_device(run)

    after = applied(capsys, *CHANGE, str(run))
    assert after["patch"]["left_out"] == [] and after["outcome"] == "written"
    assert {hunk["id"]: hunk["checked"] for hunk in after["patch"]["hunks"]} == {"TL101": said, "TL201": None}
    assert "losses.append(loss.item())\n" in _removed(after["patch"]["diff"])
    assert main(["apply", *CHANGE, str(run)]) == 0 and "applied already" in capsys.readouterr().out
    assert main(["revert", str(run)]) == 0
    assert Path("train.py").read_text() == cases.SCRIPT

    assert main(["apply", *CHANGE, str(run), "--dry-run"]) == 0
    assert f"checked: {said}" in " ".join(capsys.readouterr().out.split())
    other = applied(capsys, *CHANGE, str(run), "--dry-run", "--interval", "5")
    assert [hunk["id"] for hunk in other["patch"]["left_out"]] == ["TL101"], "every 5 batches was never tried"


def test_a_patch_of_nothing_proved_leaves_the_files_as_they_are(run: Path, capsys: Capture) -> None:
    assert main(["apply", *CHANGE, str(run), "--only", "TL101"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"run: tracelens verify {run}/ --lever event-interval" in said and "Nothing to change." in said
    assert Path("train.py").read_text() == cases.SCRIPT and not (run / "backup").exists()


def _removed(diff: str) -> str:
    return "".join(f"{line[1:].lstrip()}\n" for line in diff.splitlines() if re.match(r"-(?!--)", line))
