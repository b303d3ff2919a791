"""`tracelens patch FILE --every-place`: what it changes without a Run, what it writes, and how it is taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.checked_hunks import UNKNOWN, prove_nothing
from tests.support.patching import script
from tests.support.places import ROOT
from tracelens.cli import main
from tracelens.patch.files import apply as patcher

pytestmark = [pytest.mark.slow, pytest.mark.programs]

Capture = pytest.CaptureFixture[str]
SCHEMA = json.loads((ROOT / "docs" / "patch.schema.json").read_text())
TRAIN = script("""
for x, y in loader:
    STEP
    torch.cuda.synchronize()
    if loss.item() > 9:
        break
for x, y in loader:
    STEP
    print(loss.item())
""")
COPIES = script(
    "from torch.utils.data import DataLoader\nloader = DataLoader(data, 4, num_workers=2)\n"
    "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    STEP\n"
)
LINES = TRAIN.splitlines()
SYNC, PRINT = (LINES.index(line) + 1 for line in ("    torch.cuda.synchronize()", "    print(loss.item())"))
CHECK = SYNC + 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracelens", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def answer(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["patch", *words, "--every-place", "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    return document


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_place_is_patched_and_given_back(here: Path) -> None:
    before = everything(here)
    shown = program("patch", "train.py", "--every-place", "--dry-run", "--format", "json", folder=here)
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["outcome"] == "shown" and document["cost"] is None and document["folder"] is None
    assert everything(here) == before, "a dry run writes nothing"

    written = program("patch", "train.py", "--every-place", folder=here)
    assert written.returncode == 0, written.stderr
    assert "No cost is known" in written.stdout
    assert (here / "train.py").read_text() != TRAIN
    (next_line,) = [line for line in written.stdout.splitlines() if line.startswith("next: tracelens revert ")]

    (folder,) = (here / "tracelens-runs").iterdir()
    assert next_line.split()[-1] == f"tracelens-runs/{folder.name}/"
    undone = program("revert", next_line.split()[-1], folder=here)
    assert undone.returncode == 0, undone.stderr
    assert everything(here) == before, "to the byte, and without the folder of the backup"


def test_each_place_has_its_line_kind_tier_and_reason(here: Path, capsys: Capture) -> None:
    document = answer(capsys, "train.py", "--dry-run")
    hunks = [(hunk["path"], hunk["line"], hunk["kind"], hunk["tier"]) for hunk in document["hunks"]]
    assert hunks == [("train.py", SYNC, "event-sync", "safe"), ("train.py", PRINT, "defer-read", "safe")]
    assert document["hunks"][1]["reason"].startswith("1 value read in each batch")
    assert {(item["line"], item["kind"]) for item in document["declined"]} >= {(CHECK, "defer-read")}
    assert all(item["reason"] and item["by_hand"] for item in document["declined"])
    assert sorted((file["path"], file["created"]) for file in document["files"])[-1] == ("train.py", False)


def test_a_lever_chooses_the_changes(here: Path, capsys: Capture) -> None:
    kinds = {hunk["kind"] for hunk in answer(capsys, "train.py", "--dry-run", "--lever", "defer-read")["hunks"]}
    assert kinds == {"defer-read"}
    none = answer(capsys, "train.py", "--lever", "pinned-copy")
    assert none["outcome"] == "nothing" and none["hunks"] == [] and none["diff"] == ""
    assert not (here / "tracelens-runs").exists()


def test_a_copy_stream_whose_gain_nobody_knows_is_made_where_it_is_asked_for(here: Path, capsys: Capture) -> None:
    """Without a recording the lines that a copy from pinned memory needs are enough, and no helper file."""
    (here / "train.py").write_text(COPIES)
    plain = answer(capsys, "train.py", "--dry-run")
    assert {hunk["kind"] for hunk in plain["hunks"]} == {"async-copy"}
    assert [file["path"] for file in plain["files"]] == ["train.py"]
    for named in (("prefetch",), ("more-streams",), ("full-pipeline",)):
        asked = answer(capsys, "train.py", "--dry-run", *(word for lever in named for word in ("--lever", lever)))
        assert "prefetch" in {hunk["kind"] for hunk in asked["hunks"]}


def test_an_unknown_lever_is_answered_with_a_known_one(here: Path, capsys: Capture) -> None:
    assert main(["patch", "train.py", "--every-place", "--lever", "event-intervall"]) == 2
    assert "Did you mean 'event-interval'?" in capsys.readouterr().err
    assert everything(here).keys() == {"train.py"}


def test_what_is_not_proved_is_written_with_checked_only(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove_nothing(monkeypatch, "defer-read")
    reads = ("train.py", "--lever", "defer-read")
    without = answer(capsys, *reads)
    assert without["outcome"] == "nothing" and (here / "train.py").read_text() == TRAIN
    (left,) = without["left_out"]
    assert (left["line"], left["tier"]) == (PRINT, "checked") and left["reason"].endswith(f"not proved: {UNKNOWN}")
    assert main(["patch", *reads, "--every-place"]) == 0
    assert "--checked writes it" in capsys.readouterr().out
    checked = answer(capsys, *reads, "--checked")
    assert checked["outcome"] == "written" and checked["left_out"] == []
    (hunk,) = checked["hunks"]  # written without a helper file: what that may lose is said beside what is not known
    lost = "where an exception or a signal ends the loop, lines and results of the last 9 batches at most are missing"
    assert {**hunk, "reason": ""} == {**left, "reason": ""}
    assert hunk["reason"].endswith(f"; not proved: {lost}; {UNKNOWN}")
    assert (here / "train.py").read_text() != TRAIN


def test_two_files_of_a_project_share_one_backup(here: Path, capsys: Capture) -> None:
    (here / "more").mkdir()
    (here / "more" / "other.py").write_text(TRAIN)
    before = everything(here)
    document = answer(capsys, "train.py", "more/other.py")
    assert {hunk["path"] for hunk in document["hunks"]} == {"train.py", "more/other.py"}
    assert answer(capsys, "train.py", "more/other.py")["outcome"] == "nothing", "a second run changes nothing"
    assert main(["revert"]) == 0, "without a run, what is in the files is taken back"
    assert everything(here) == before


def test_a_file_that_is_edited_since_is_not_taken_back(here: Path, capsys: Capture) -> None:
    folder = answer(capsys, "train.py")["folder"]
    edited = (here / "train.py").read_bytes() + b"# mine\n"
    (here / "train.py").write_bytes(edited)
    assert main(["revert", folder]) == 1
    assert "edited since" in capsys.readouterr().err and (here / "train.py").read_bytes() == edited


def test_no_other_command_takes_the_folder_for_a_run(here: Path, capsys: Capture) -> None:
    folder = answer(capsys, "train.py")["folder"]
    assert main(["analyze"]) == 4 and "no complete run" in capsys.readouterr().err
    assert main(["recommend", folder]) == 4
    assert "Traceback" not in capsys.readouterr().err
    assert (here / folder / "backup" / "manifest.json").is_file()


def test_a_write_that_fails_leaves_no_folder_behind(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "train.py")

    monkeypatch.setattr(patcher, "write", full)
    assert main(["patch", "train.py", "--every-place"]) != 0
    assert "No space left" in capsys.readouterr().err
    assert list((here / "tracelens-runs").iterdir()) == [] and (here / "train.py").read_text() == TRAIN


BAD = {
    "no --every-place": (["train.py"], 2, "--every-place"),
    "a missing file": (["gone.py", "--every-place"], 4, "gone.py does not exist"),
    "a folder": ([".", "--every-place"], 2, "is a folder"),
    "no file": (["--every-place"], 2, "FILE"),
    "a file of another project": (["train.py", "--every-place", "--project", "empty"], 2, "is not below"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_input_is_named(case: str, here: Path, capsys: Capture) -> None:
    (here / "empty").mkdir()
    words, code, said = BAD[case]
    assert main(["patch", *words]) == code
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_no_python_is_declined_and_the_others_are_patched(here: Path, capsys: Capture) -> None:
    (here / "old.py").write_text("import torch\nprint loss.backward()\n")
    document = answer(capsys, "old.py", "train.py")
    (declined,) = [item for item in document["declined"] if item["path"] == "old.py"]
    assert "does not parse as Python 3" in declined["reason"]
    assert {hunk["path"] for hunk in document["hunks"]} == {"train.py"}
    assert (here / "old.py").read_text().startswith("import torch\nprint loss")
