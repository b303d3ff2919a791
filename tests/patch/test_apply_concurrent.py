"""Several processes that write or revert the same files at once: one after the other, never mixed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from tests.support.applying import AFTER, BEFORE, project, writing_with
from tests.support.places import ROOT
from tracelens import run
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply, folder_lock

RACING = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tracelens import run
from tracelens.cli import main
from tracelens.errors import Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply, folder_lock

folder, name, pause, folder_lock.WAIT_SECONDS = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
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


def racing(folder: Path, name: str, pause: float = 0.0, patience: float = 60.0) -> subprocess.Popen[str]:
    """A process that patches; it waits `pause` seconds at each file, and `patience` seconds for another process."""
    program = RACING.format(root=str(ROOT))
    words = [sys.executable, "-c", program, str(folder), name, str(pause), str(patience)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    for name in ("run0", "run1"):
        (tmp_path / name).mkdir()
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_bytes(b"x = 1")
    return tmp_path


def until_begun(folder: Path) -> None:
    ends = time.monotonic() + 120
    while not (folder / "run0" / "begun").exists() and time.monotonic() < ends:
        time.sleep(0.02)


@pytest.mark.programs
def test_two_runs_that_patch_the_same_files_at_once_never_mix(two_runs: Path) -> None:
    first = racing(two_runs, "run0", 1.0)
    until_begun(two_runs)
    second = racing(two_runs, "run1")
    said = second.communicate(timeout=120)[0]
    assert (first.wait(timeout=120), second.returncode) == (0, 1)
    assert "has changed since the patch was made" in said
    assert {(two_runs / name).read_bytes() for name in ("a.py", "b.py")} == {b"run0"}
    assert sorted(path.name for path in two_runs.iterdir()) == ["a.py", "b.py", "run0", "run1"]
    assert not (two_runs / "run1" / "backup").exists()
    first.stdout.close()


@pytest.mark.programs
def test_a_killed_run_holds_nobody_up(two_runs: Path) -> None:
    first = racing(two_runs, "run0", 60.0)
    until_begun(two_runs)
    first.kill()
    first.communicate()
    second = racing(two_runs, "run1", patience=0.0)
    second.communicate(timeout=120)
    assert second.returncode == 0
    assert {(two_runs / name).read_bytes() for name in ("a.py", "b.py")} == {b"run1"}


@pytest.mark.programs
def test_a_run_that_was_stopped_in_the_middle_is_named_after_a_while(
    two_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = racing(two_runs, "run0", 2.0)
    until_begun(two_runs)
    first.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(folder_lock, "WAIT_SECONDS", 0.3)
    patch = Patch(two_runs, (FilePatch(two_runs / "b.py", b"x = 1", b"run1"),), (), (), "")
    try:
        with pytest.raises(Refused, match="another tracelens is writing in"):
            apply.write(patch, two_runs / "run1" / "backup")
    finally:
        first.send_signal(signal.SIGCONT)
        first.communicate(timeout=120)
    assert (two_runs / "b.py").read_bytes() == b"run0"


@pytest.mark.programs
def test_folders_that_can_only_be_read_or_not_be_locked_are_no_obstacle(two_runs: Path) -> None:
    two_runs.chmod(0o555)
    try:
        with folder_lock.exclusive(two_runs / "run0", [two_runs, two_runs / "none", two_runs / "run0"]):
            held = subprocess.run(["flock", "--nonblock", str(two_runs), "true"], check=False)
    finally:
        two_runs.chmod(0o755)
    assert held.returncode == 1
    with (
        mock.patch.object(folder_lock.fcntl, "flock", side_effect=OSError(9, "Bad file descriptor")),
        folder_lock.exclusive(two_runs / "run0", [two_runs]),
        folder_lock.exclusive(two_runs / "run1", [two_runs]),
    ):
        pass
    assert sorted(path.name for path in two_runs.iterdir()) == ["a.py", "b.py", "run0", "run1"]


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

    with writing_with(write_bytes):
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
