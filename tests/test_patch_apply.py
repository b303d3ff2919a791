"""Writing and reverting: to the byte, all or nothing, and never over something that was edited."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from tracelens import run
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch import apply
from tracelens.patch.source import Unreadable, parse

BEFORE = b"print(1)\r\n# no newline at the end"
AFTER = b"print(2)\r\n# no newline at the end"


def project(folder: Path) -> tuple[Patch, Path, Path]:
    """A project with one file to change and one to create; returns the patch and both paths."""
    (folder / "src").mkdir()
    old, new = folder / "src" / "train.py", folder / "src" / "tracelens_runtime.py"
    old.write_bytes(BEFORE)
    old.chmod(0o750)
    files = (FilePatch(old, BEFORE, AFTER), FilePatch(new, None, b"# runtime\n"))
    return Patch(folder, files, (), (), ""), old, new


def test_written_and_reverted_to_the_byte_with_permissions(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    assert old.read_bytes() == AFTER
    assert new.read_bytes() == b"# runtime\n"
    assert old.stat().st_mode & 0o777 == 0o750
    assert set(apply.revert(tmp_path / "backup")) == {old, new}
    assert old.read_bytes() == BEFORE
    assert old.stat().st_mode & 0o777 == 0o750
    assert not new.exists()
    assert not (tmp_path / "backup").exists()


def test_the_manifest_holds_both_digests_and_relative_paths(tmp_path: Path) -> None:
    patch, _, _ = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    rows = json.loads((tmp_path / "backup" / "manifest.json").read_text())["files"]
    assert [row["path"] for row in rows] == ["../src/train.py", "../src/tracelens_runtime.py"]
    assert [row["sha256_before"] for row in rows] == [run.sha256(BEFORE), None]
    assert [row["sha256_after"] for row in rows] == [run.sha256(AFTER), run.sha256(b"# runtime\n")]


def test_a_file_that_changed_since_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    old.write_bytes(b"print(3)\n")
    with pytest.raises(Refused, match="has changed since"):
        apply.write(patch, tmp_path / "backup")
    assert old.read_bytes() == b"print(3)\n"
    assert not new.exists()
    assert not (tmp_path / "backup").exists()


def test_a_created_file_that_exists_by_now_is_refused(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    new.write_bytes(b"mine")
    with pytest.raises(Refused, match="has appeared"):
        apply.write(patch, tmp_path / "backup")
    assert (old.read_bytes(), new.read_bytes()) == (BEFORE, b"mine")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    old.unlink()
    with pytest.raises(Refused):
        apply.write(patch, tmp_path / "backup")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_if_the_second_file_fails_the_first_is_put_back(error: BaseException, tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    real = run.write_bytes

    def failing(path: Path, data: bytes, mode: int | None = None) -> None:
        if path == new:
            raise error
        real(path, data, mode)

    with (
        mock.patch.object(run, "write_bytes", failing),
        pytest.raises(Refused if isinstance(error, OSError) else KeyboardInterrupt),
    ):
        apply.write(patch, tmp_path / "backup")
    assert old.read_bytes() == BEFORE
    assert not new.exists()
    with pytest.raises(InputError):
        apply.revert(tmp_path / "backup")


def test_a_crash_between_two_files_can_be_reverted(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    new.unlink()  # as if the program had died before it wrote the second file
    apply.revert(tmp_path / "backup")
    assert old.read_bytes() == BEFORE


def test_a_second_patch_over_the_first_is_refused(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    other = Patch(tmp_path, (FilePatch(old, AFTER, b"x = 1\n"),), (), (), "")
    with pytest.raises(Refused, match="applied already"):
        apply.write(other, tmp_path / "backup")
    assert old.read_bytes() == AFTER


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


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    old.rename(tmp_path / "elsewhere.py")
    old.symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(Refused, match="symbolic link"):
        apply.write(patch, tmp_path / "backup")


def test_an_empty_patch_writes_nothing(tmp_path: Path) -> None:
    apply.write(Patch(tmp_path, (), (), (), ""), tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


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
    (tmp_path / apply.MANIFEST).write_text(text)
    with pytest.raises(InputError):
        apply.revert(tmp_path)


@pytest.mark.parametrize(
    "data", ["# é\nx = 1\n".encode("latin-1"), b"# coding: nonsense\nx = 1\n", b"x = 1\0\n", b"print 1\n"]
)
def test_source_that_python_cannot_read_is_said_and_not_patched(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(Path("train.py"), "train.py", data)
