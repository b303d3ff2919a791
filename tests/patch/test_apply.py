"""Writing and reverting: to the byte, all or nothing, and never over something that was edited."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.support import run_cases
from tests.support.places import ROOT
from tracelens import run
from tracelens.cli import main
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.code.source import Unreadable, parse
from tracelens.patch.files import alone, apply

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

    def failing(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
        if path == new:
            raise error
        real(path, data, mode, mark)

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


DYING = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply

left = [int(sys.argv[1])]
def counted(function):
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)  # no handler, no cleaning up
        return function(*arguments, **options)
    return call
os.replace, os.unlink, os.rmdir = counted(os.replace), counted(os.unlink), counted(os.rmdir)

folder = Path(sys.argv[2])
files = tuple(
    FilePatch(folder / name, before, after)
    for name, before, after in [
        ("a.py", b"a = 1\\r\\n", b"a = 2\\r\\n"),
        ("b.py", b"b = 1", b"b = 2"),
        ("c.py", None, b"c"),
    ]
)
if sys.argv[3] == "write":
    apply.write(Patch(folder, files, (), (), ""), folder / "run" / "backup")
else:
    apply.revert(folder / "run" / "backup")
"""


def died_after(count: int, folder: Path, command: str) -> bool:
    program = DYING.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-c", program, str(count), str(folder), command], check=False)
    assert done.returncode in (0, -9)
    return done.returncode == -9


def three_files(folder: Path) -> dict[str, bytes]:
    (folder / "a.py").write_bytes(b"a = 1\r\n")
    (folder / "b.py").write_bytes(b"b = 1")
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.py")}


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("a.py", "b.py", "c.py", "run"))


@pytest.mark.parametrize("command", ["write", "revert"])
@pytest.mark.parametrize("then", ["write", "revert", "clean up"])
def test_what_a_kill_left_beside_the_script_is_gone_after_the_next_command(
    command: str, then: str, tmp_path: Path
) -> None:
    """Killed between writing a file and renaming it; what merely looks like ours stays."""
    named = 0
    for count in range(20):
        folder = tmp_path / str(count)
        folder.mkdir()
        before = three_files(folder)
        foreign = [f".a.py.tracelens-{'0' * 16}", ".a.py.swp", ".b.py.1a2b3c4d"]
        for name in foreign:
            (folder / name).write_text("mine")
        if command == "revert":
            assert not died_after(1000, folder, "write")
        if not died_after(count, folder, command):
            break
        ours = [name for name in left_over(folder) if name not in foreign]
        assert all(re.fullmatch(r"\.[abc]\.py\.tracelens-[0-9a-f]{16}", name) for name in ours)
        named += len(ours)
        backup = folder / "run" / "backup"
        with contextlib.suppress(InputError, Refused):
            if then == "write":
                apply.write(Patch(folder, (FilePatch(folder / "a.py", before["a.py"], b"a = 3"),), (), (), ""), backup)
            elif then == "revert":
                apply.revert(backup, (folder,))
            else:
                apply.clean_up(backup)
        assert left_over(folder) == sorted(foreign)
    assert named >= 2


def test_a_patch_that_a_kill_left_in_part_is_called_so(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    apply.write(patch, tmp_path / "run" / "backup")
    new.unlink()  # as if the program had died before it wrote the second file
    with pytest.raises(Refused, match="in part") as caught:
        apply.write(patch, tmp_path / "run" / "backup")
    assert caught.value.hint == "run `tracelens revert` first"
    old.write_bytes(BEFORE)  # and here before it wrote the first one: nothing is applied
    apply.write(patch, tmp_path / "run" / "backup")
    assert old.read_bytes() == AFTER


def test_a_mark_that_is_no_mark_is_an_input_error(tmp_path: Path) -> None:
    patch, _, _ = project(tmp_path)
    backup = tmp_path / "run" / "backup"
    apply.write(patch, backup)
    manifest = json.loads((backup / "manifest.json").read_text())
    assert re.fullmatch("[0-9a-f]{16}", manifest["mark"])
    (backup / "manifest.json").write_text(json.dumps({**manifest, "mark": "../../precious"}))
    with pytest.raises(InputError, match="no mark"):
        apply.revert(backup)
    del manifest["mark"]  # a backup of an earlier version
    (backup / "manifest.json").write_text(json.dumps(manifest))
    assert len(apply.revert(backup)) == 2


RACING = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tracelens import run
from tracelens.cli import main
from tracelens.errors import Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply

folder, name, pause = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
real = run.write_bytes
def slowly(path, data, mode=None, mark=None):
    if path.parent == folder:
        (folder / "run0" / "begun").touch()
        time.sleep(pause)
    real(path, data, mode, mark)
run.write_bytes = slowly
files = tuple(FilePatch(folder / f, b"x = 1", name.encode()) for f in ("a.py", "b.py"))
try:
    apply.write(Patch(folder, files, (), (), ""), folder / name / "backup")
except Refused as error:
    print(error.message)
    sys.exit(1)
"""


def racing(folder: Path, name: str, pause: float = 0.0) -> subprocess.Popen[str]:
    program = RACING.format(root=str(ROOT))
    words = [sys.executable, "-c", program, str(folder), name, str(pause)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    for name in ("run0", "run1"):
        (tmp_path / name).mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_bytes(b"x = 1")
    return tmp_path


def until_begun(folder: Path) -> None:
    ends = time.monotonic() + 20
    while not (folder / "run0" / "begun").exists() and time.monotonic() < ends:
        time.sleep(0.02)


def test_two_runs_that_patch_the_same_files_at_once_never_mix(two_runs: Path) -> None:
    first = racing(two_runs, "run0", 1.0)
    until_begun(two_runs)
    second = racing(two_runs, "run1")
    said = second.communicate(timeout=30)[0]
    assert (first.wait(timeout=30), second.returncode) == (0, 1)
    assert "has changed since the patch was made" in said
    assert {(two_runs / name).read_bytes() for name in ("a.py", "b.py")} == {b"run0"}
    assert sorted(path.name for path in two_runs.iterdir()) == ["a.py", "b.py", "run0", "run1"]
    assert not (two_runs / "run1" / "backup").exists()
    first.stdout.close()


def test_a_killed_run_holds_nobody_up(two_runs: Path) -> None:
    first = racing(two_runs, "run0", 60.0)
    until_begun(two_runs)
    first.kill()
    first.communicate()
    begun = time.monotonic()
    second = racing(two_runs, "run1")
    second.communicate(timeout=30)
    assert second.returncode == 0
    assert time.monotonic() - begun < 10
    assert {(two_runs / name).read_bytes() for name in ("a.py", "b.py")} == {b"run1"}


def test_a_run_that_was_stopped_in_the_middle_is_named_after_a_while(
    two_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = racing(two_runs, "run0", 2.0)
    until_begun(two_runs)
    first.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(alone, "WAIT_SECONDS", 0.3)
    patch = Patch(two_runs, (FilePatch(two_runs / "b.py", b"x = 1", b"run1"),), (), (), "")
    try:
        with pytest.raises(Refused, match="another tracelens is writing in"):
            apply.write(patch, two_runs / "run1" / "backup")
    finally:
        first.send_signal(signal.SIGCONT)
        first.communicate(timeout=30)
    assert (two_runs / "b.py").read_bytes() == b"run0"


def test_folders_that_can_only_be_read_or_not_be_locked_are_no_obstacle(two_runs: Path) -> None:
    two_runs.chmod(0o555)
    try:
        with alone.alone(two_runs / "run0", [two_runs, two_runs / "none", two_runs / "run0"]):
            held = subprocess.run(["flock", "--nonblock", str(two_runs), "true"], check=False)
    finally:
        two_runs.chmod(0o755)
    assert held.returncode == 1
    with (
        mock.patch.object(alone.fcntl, "flock", side_effect=OSError(9, "Bad file descriptor")),
        alone.alone(two_runs / "run0", [two_runs]),
        alone.alone(two_runs / "run1", [two_runs]),
    ):
        pass
    assert sorted(path.name for path in two_runs.iterdir()) == ["a.py", "b.py", "run0", "run1"]


def test_killed_at_any_write_nothing_is_lost_and_revert_gives_back_every_byte(tmp_path: Path) -> None:
    deaths = 0
    for count in range(20):
        folder = tmp_path / f"write{count}"
        folder.mkdir()
        before = three_files(folder)
        if not died_after(count, folder, "write"):
            break
        deaths += 1
        with contextlib.suppress(InputError):  # killed before the backup was complete: no file was touched
            apply.revert(folder / "run" / "backup", (folder,))
        assert contents(folder) == before
        assert not died_after(1000, folder, "write")  # and the patch can be applied now
        assert contents(folder)["c.py"] == b"c"
    assert deaths >= 6


def test_killed_at_any_write_of_a_revert_the_next_one_finishes_it(tmp_path: Path) -> None:
    deaths = 0
    for count in range(20):
        folder = tmp_path / f"revert{count}"
        folder.mkdir()
        before = three_files(folder)
        assert not died_after(1000, folder, "write")
        if not died_after(count, folder, "revert"):
            break
        deaths += 1
        with contextlib.suppress(InputError):  # all was put back already, only the backup was not yet gone
            apply.revert(folder / "run" / "backup", (folder,))
        assert contents(folder) == before
        assert not died_after(1000, folder, "write")
    assert deaths >= 5


@pytest.mark.parametrize("blocked", ["train.py", "tracelens_runtime.py", "manifest.json", "0"])
def test_a_folder_that_cannot_be_written_is_one_error_and_leaves_no_backup(blocked: str, tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    real = run.write_bytes

    def read_only(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
        if path.name == blocked:
            raise PermissionError(13, "Permission denied", str(path))
        real(path, data, mode, mark)

    with mock.patch.object(run, "write_bytes", read_only), pytest.raises(Refused, match="Permission denied") as caught:
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

    with mock.patch.object(run, "write_bytes", full), pytest.raises(Refused, match="in part") as caught:
        apply.write(patch, tmp_path / "backup")
    assert "tracelens revert" in caught.value.hint
    apply.revert(tmp_path / "backup")
    assert old.read_bytes() == BEFORE


def test_a_revert_that_cannot_write_keeps_the_backup(tmp_path: Path) -> None:
    patch, old, _ = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    denied = PermissionError(13, "Permission denied", str(old))
    with mock.patch.object(run, "write_bytes", side_effect=denied), pytest.raises(Refused, match="not all files"):
        apply.revert(tmp_path / "backup")
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


def while_writing(patch: Patch, backup: Path, moment: str, other: Callable[[], object]) -> list[BaseException]:
    """Write a patch; `other` is called from a second thread right before the file called `moment` is written."""
    real, failures, threads = run.write_bytes, [], []

    def call() -> None:
        try:
            other()
        except (InputError, Refused) as error:
            failures.append(error)

    def write_bytes(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
        if path.name == moment and not threads:
            threads.append(threading.Thread(target=call))
            threads[0].start()
            threads[0].join(timeout=0.3)
        real(path, data, mode, mark)

    with mock.patch.object(run, "write_bytes", write_bytes):
        apply.write(patch, backup)
        threads[0].join()
    return failures


@pytest.mark.parametrize("moment", ["0", "manifest.json", "train.py", "tracelens_runtime.py"])
def test_of_two_patches_at_once_the_second_waits_and_is_refused(moment: str, tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    other = Patch(tmp_path, (FilePatch(old, BEFORE, b"x = 1\n"),), (), (), "")
    failures = while_writing(patch, tmp_path / "backup", moment, lambda: apply.write(other, tmp_path / "backup"))
    assert ["a patch is applied already" in str(failure) for failure in failures] == [True]
    assert old.read_bytes() == AFTER
    assert set(apply.revert(tmp_path / "backup")) == {old, new}
    assert old.read_bytes() == BEFORE
    assert not new.exists()


@pytest.mark.parametrize("moment", ["0", "manifest.json", "train.py", "tracelens_runtime.py"])
def test_a_revert_waits_for_the_patch_that_is_being_written(moment: str, tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    assert while_writing(patch, tmp_path / "backup", moment, lambda: apply.revert(tmp_path / "backup")) == []
    assert old.read_bytes() == BEFORE
    assert not new.exists()
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError(2, "No such file or directory")])
def test_only_a_full_disk_is_told_to_be_emptied(error: OSError, tmp_path: Path) -> None:
    patch, _, _ = project(tmp_path)
    with mock.patch.object(run, "write_bytes", side_effect=error), pytest.raises(Refused) as caught:
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
