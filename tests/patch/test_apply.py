"""Writing a patch: to the byte, all or nothing, and never over something that was edited."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import pytest

from tests.support import run_cases
from tests.support.applying import AFTER, BEFORE, project, writing_with
from tracelens import run
from tracelens.cli import main
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.code.source import Unreadable, parse
from tracelens.patch.files import apply


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

    def failing(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
        if path == new:
            raise error
        real(path, data, mode, mark)

    with (
        writing_with(failing),
        pytest.raises(Refused if isinstance(error, OSError) else KeyboardInterrupt),
    ):
        apply.write(patch, tmp_path / "backup")
    assert old.read_bytes() == BEFORE
    assert not new.exists()
    with pytest.raises(InputError):
        apply.revert(tmp_path / "backup")


@pytest.mark.parametrize("blocked", ["train.py", "tracelens_runtime.py", "manifest.json", "0"])
def test_a_folder_that_cannot_be_written_is_one_error_and_leaves_no_backup(blocked: str, tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    real = run.write_bytes

    def read_only(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
        if path.name == blocked:
            raise PermissionError(13, "Permission denied", str(path))
        real(path, data, mode, mark)

    with writing_with(read_only), pytest.raises(Refused, match="Permission denied") as caught:
        apply.write(patch, tmp_path / "run" / "backup")
    assert "nothing was changed" in caught.value.message
    assert old.read_bytes() == BEFORE
    assert not new.exists()
    assert not (tmp_path / "run" / "backup").exists()


def test_a_failure_that_cannot_be_taken_back_keeps_the_backup_and_says_so(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    real, calls = run.write_bytes, []

    def full(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
        calls.append(path)
        if path == new or calls.count(old) > 1:
            raise OSError(28, "No space left on device", str(path))
        real(path, data, mode, mark)

    with writing_with(full), pytest.raises(Refused, match="in part") as caught:
        apply.write(patch, tmp_path / "backup")
    assert "tracelens revert" in caught.value.hint
    apply.revert(tmp_path / "backup")
    assert old.read_bytes() == BEFORE


def test_an_edit_on_top_of_an_applied_patch_is_noticed(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    apply.check_not_edited(tmp_path / "backup")
    apply.write(patch, tmp_path / "backup")
    apply.check_not_edited(tmp_path / "backup")
    old.write_bytes(AFTER + b"\n")
    with pytest.raises(Refused, match="edited since") as caught:
        apply.check_not_edited(tmp_path / "backup")
    assert "tracelens revert" in caught.value.hint


def test_a_second_patch_over_the_first_is_refused(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    other = Patch(tmp_path, (FilePatch(old, AFTER, b"x = 1\n"),), (), (), "")
    with pytest.raises(Refused, match="applied already"):
        apply.write(other, tmp_path / "backup")
    assert old.read_bytes() == AFTER


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(2, "No such file or directory")])
def test_only_a_full_disk_is_told_to_be_emptied(error: OSError, tmp_path: Path) -> None:
    patch, _, _ = project(tmp_path)
    with writing_with(mock.Mock(side_effect=error)), pytest.raises(Refused) as caught:
        apply.write(patch, tmp_path / "backup")
    assert ("free some space" in caught.value.hint) == (error.errno == 28)


def test_where_the_rename_fails_the_file_is_named_and_not_the_one_it_is_made_from(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    real = os.replace

    def denied(before: str, after: Path) -> None:
        if after == old:
            raise PermissionError(1, "Operation not permitted", before, None, str(after))
        real(before, after)

    with mock.patch.object(os, "replace", denied), pytest.raises(Refused) as caught:
        apply.write(patch, tmp_path / "backup")
    assert caught.value.message == f"{old} cannot be written: Operation not permitted; nothing was changed"


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    old.rename(tmp_path / "elsewhere.py")
    old.symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(Refused, match="symbolic link"):
        apply.write(patch, tmp_path / "backup")


def test_an_empty_patch_writes_nothing(tmp_path: Path) -> None:
    apply.write(Patch(tmp_path, (), (), (), ""), tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize(
    "data", ["# é\nx = 1\n".encode("latin-1"), b"# coding: nonsense\nx = 1\n", b"x = 1\0\n", b"print 1\n"]
)
def test_source_that_python_cannot_read_is_said_and_not_patched(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(Path("train.py"), "train.py", data)


def test_a_script_in_latin_1_is_patched_reported_and_given_back_to_the_byte(tmp_path: Path) -> None:
    """Its bytes are no UTF-8: they once ended `apply` with a traceback after the files were written."""
    text = run_cases.SCRIPT.replace('"""A training loop as people write it."""', "# -*- coding: latin-1 -*-")
    text = text.replace("torch.cuda.synchronize()", "torch.cuda.synchronize()  # attente à l'arrêt")
    folder = run_cases.recorded(tmp_path)
    script, before = tmp_path / "train.py", text.encode("latin-1")
    script.write_bytes(before)
    meta = json.loads((folder / run.RUN_FILE).read_text())
    meta["script"]["sha256"] = run.sha256(before)
    run.write_json(folder / run.RUN_FILE, meta)
    assert main(["apply", str(folder), "--scheme", "event-interval"]) == 0
    assert "# attente à l'arrêt".encode("latin-1") in script.read_bytes()
    assert script.read_bytes() != before
    compile(script.read_bytes(), "train.py", "exec")
    (folder / run.REPORT_FILE).read_text(encoding="utf-8")
    if (folder / run.PATCH_FILE).exists():
        assert "à".encode("latin-1") in (folder / run.PATCH_FILE).read_bytes()
    assert main(["revert", str(folder)]) == 0
    assert script.read_bytes() == before
