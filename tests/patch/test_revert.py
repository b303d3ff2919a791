"""Reverting: to the byte, never over an edit, and never from a damaged backup."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from tests.support.applying import AFTER, BEFORE, project, writing_with
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply
from tracelens.run.backup import MANIFEST


def test_a_revert_that_cannot_write_keeps_the_backup(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    denied = PermissionError(13, "Permission denied", str(old))
    with writing_with(mock.Mock(side_effect=denied)), pytest.raises(Refused, match="not all files"):
        apply.revert(tmp_path / "backup")
    apply.revert(tmp_path / "backup")
    assert old.read_bytes() == BEFORE


def test_edits_made_since_are_not_thrown_away(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    old.write_bytes(AFTER + b"\nprint('mine')\n")
    with pytest.raises(Refused, match="edited since"):
        apply.revert(tmp_path / "backup")
    assert old.read_bytes() == AFTER + b"\nprint('mine')\n"
    assert new.exists()


def test_without_a_backup_there_is_nothing_to_revert(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no backup") as caught:
        apply.revert(tmp_path / "backup")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 9, "files": []}', '{"schema_version": 1}'])
def test_a_damaged_manifest_is_an_input_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / "manifest.json").write_text(content)
    with pytest.raises(InputError):
        apply.revert(tmp_path / "backup")


def test_a_damaged_backup_is_noticed_before_anything_is_restored(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    (tmp_path / "backup" / "0").write_bytes(b"damaged")
    with pytest.raises(InputError, match="damaged"):
        apply.revert(tmp_path / "backup")
    assert old.read_bytes() == AFTER


def test_a_backup_that_names_a_file_outside_the_project_is_refused(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere.py"
    project.mkdir()
    elsewhere.write_bytes(b"x = 1\n")
    backup = project / "run" / "backup"
    file = FilePatch(elsewhere, b"x = 1\n", b"x = 2\n")
    apply.write(Patch(tmp_path, (file,), (), (), ""), backup)
    with pytest.raises(Refused, match="outside the project"):
        apply.revert(backup, (project,))
    assert elsewhere.read_bytes() == b"x = 2\n"
    assert apply.revert(backup, (tmp_path,)) == (elsewhere,)


@pytest.mark.parametrize(
    "text",
    ["[]", "[" * 100_000, '{"schema_version": 1}', '{"schema_version": 1, "files": [{"path": "a", "mode": "x"}]}'],
)
def test_a_damaged_list_of_files_is_an_input_error(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError):
        apply.revert(tmp_path)
