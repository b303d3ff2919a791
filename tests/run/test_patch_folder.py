"""The folder of a patch that was made without a recording: what it says, and what it must not be taken for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracelens import run as runs
from tracelens.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return runs.new_patch_folder(tmp_path, [tmp_path / "train.py"])


def test_it_is_read_as_it_was_written_wherever_it_is_moved_with_its_project(folder: Path, tmp_path: Path) -> None:
    patched = runs.read_patch_folder(folder)
    assert (patched.project, patched.scripts) == (tmp_path.resolve(), (tmp_path.resolve() / "train.py",))
    assert str(tmp_path) not in (folder / "patch.json").read_text()


def test_it_is_no_run(folder: Path) -> None:
    assert runs.is_patch_folder(folder) and not runs.is_run(folder)
    with pytest.raises(InputError, match="no complete run"):
        runs.newest(folder.parent)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 9}, "schema version 9"),
        ({"project": 3}, "does not describe a patch"),
        ({"scripts": None}, "does not describe a patch"),
    ],
)
def test_what_is_not_ours_is_an_input_error(folder: Path, change: dict[str, object], said: str) -> None:
    path = folder / "patch.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=said):
        runs.read_patch_folder(folder)


def test_only_an_empty_folder_is_removed(folder: Path) -> None:
    (folder / "mine.txt").write_text("kept")
    runs.remove_patch_folder(folder)
    assert (folder / "mine.txt").is_file()
    (folder / "mine.txt").unlink()
    runs.remove_patch_folder(folder)
    assert not folder.exists()
