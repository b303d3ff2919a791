"""The scratch folder: removed at the end, by the guardian after a SIGKILL, by the next verification after worse."""

import contextlib
import fcntl
import subprocess
import sys

import pytest

from tracelens.verify.supervisor import scratch_folder


@pytest.mark.programs
def test_the_folder_lives_as_long_as_the_block(tmp_path):
    with scratch_folder.opened(tmp_path) as space:
        (space.folder / "run").mkdir()
        assert space.folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.programs
def test_the_folder_is_removed_when_the_block_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), scratch_folder.opened(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


@pytest.mark.programs
def test_what_a_dead_verification_left_is_removed_by_the_next_and_a_living_ones_is_not(tmp_path):
    dead, living, foreign = (tmp_path / f"{scratch_folder.PREFIX}{name}" for name in ("dead", "living", "foreign"))
    for folder in (dead, living, foreign):
        (folder / "run" / "tree").mkdir(parents=True)
    (dead / scratch_folder.LOCK).touch()
    with (living / scratch_folder.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with scratch_folder.opened(tmp_path):
            assert not dead.exists()
            assert living.exists(), "its lock is held"
            assert foreign.exists(), "it has no lock: not made by us, or made just now"


@pytest.mark.parametrize(("name", "short"), [("tmp", False), ("x" * 60, True)])
def test_sockets_of_loader_workers_find_a_place_with_a_short_name(tmp_path, monkeypatch, name, short):
    """A job's TMPDIR may be long; a socket's path must not be."""
    long_or_not = f"/{name}"
    monkeypatch.setattr(scratch_folder.tempfile, "gettempdir", lambda: long_or_not)
    parent = scratch_folder.usual_parent()
    assert str(parent) == ("/tmp" if short else long_or_not)
    listener = parent / f"{scratch_folder.PREFIX}abcdefgh" / "run" / "tmp" / "pymp-abcdefgh" / "listener-abcdefgh"
    assert len(str(listener)) <= 107
    longest = "/" + "x" * (scratch_folder.LONGEST_PARENT - 1)
    assert len(str(listener)) - len(str(parent)) + len(longest) <= 107


@pytest.mark.programs
def test_the_guardian_ends_the_arm_that_runs_and_no_other(tmp_path):
    folder = tmp_path / "space"
    folder.mkdir()
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    first, second = (subprocess.Popen(sleeping, start_new_session=True) for _ in range(2))
    guardian = scratch_folder._guardian(folder)
    space = scratch_folder.ScratchFolder(folder, guardian.stdin)
    try:
        for group in (first.pid, 0, second.pid):
            space.watch_group(group)
        guardian.stdin.close()  # what the end of our process does
        assert second.wait(timeout=120) == -9
        assert guardian.wait(timeout=120) == 0
        assert first.poll() is None
        assert not folder.exists()
    finally:
        first.kill()
        first.wait()


@pytest.mark.programs
def test_a_guardian_that_is_gone_is_no_reason_to_fail(tmp_path):
    guardian = scratch_folder._guardian(tmp_path / "none")
    guardian.kill()
    guardian.wait()
    scratch_folder.ScratchFolder(tmp_path, guardian.stdin).watch_group(1)
    with contextlib.suppress(OSError):
        guardian.stdin.close()
