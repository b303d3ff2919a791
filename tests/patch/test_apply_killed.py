"""A process that is killed while it writes or reverts: nothing is lost, and the next command finishes or undoes it."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.applying import AFTER, BEFORE, project
from tests.support.places import ROOT
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply


def test_a_crash_between_two_files_can_be_reverted(tmp_path: Path) -> None:
    patch, old, new = project(tmp_path)
    apply.write(patch, tmp_path / "backup")
    new.unlink()  # as if the program had died before it wrote the second file
    apply.revert(tmp_path / "backup")
    assert old.read_bytes() == BEFORE


DYING = """
import json, os, signal, sys, traceback
from pathlib import Path
sys.path.insert(0, {root!r})
from tracelens.model import FilePatch, Patch
from tracelens.patch.files import apply

def counted(function, left):
    def call(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)  # no handler, no cleaning up
        return function(*arguments, **options)
    return call

def obey(count, folder, command):
    left = [count]
    os.replace, os.unlink, os.rmdir = (counted(f, left) for f in (os.replace, os.unlink, os.rmdir))
    files = tuple(
        FilePatch(folder / name, before, after)
        for name, before, after in [
            ("a.py", b"a = 1\\r\\n", b"a = 2\\r\\n"),
            ("b.py", b"b = 1", b"b = 2"),
            ("c.py", None, b"c"),
        ]
    )
    if command == "write":
        apply.write(Patch(folder, files, (), (), ""), folder / "run" / "backup")
    else:
        apply.revert(folder / "run" / "backup")

for line in sys.stdin:
    count, folder, command = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            obey(count, Path(folder), command)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
Dying = Callable[[int, Path, str], bool]


@pytest.fixture(scope="module")
def died_after() -> Iterator[Dying]:
    """Whether a process of its own that writes or reverts was killed, at the given number of renames and removals.

    Each is forked from one process that has the imports behind it.
    """
    words = [sys.executable, "-c", DYING.format(root=str(ROOT))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forking:
        assert forking.stdin is not None and forking.stdout is not None

        def ask(count: int, folder: Path, command: str) -> bool:
            print(json.dumps([count, str(folder), command]), file=forking.stdin, flush=True)
            status = int(forking.stdout.readline())
            assert status in (0, -9)
            return status == -9

        yield ask
        forking.stdin.close()


def three_files(folder: Path) -> dict[str, bytes]:
    (folder / "a.py").write_bytes(b"a = 1\r\n")
    (folder / "b.py").write_bytes(b"b = 1")
    return contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.py")}


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("a.py", "b.py", "c.py", "run"))


@pytest.mark.programs
@pytest.mark.parametrize("command", ["write", "revert"])
@pytest.mark.parametrize("then", ["write", "revert", "clean up"])
def test_what_a_kill_left_beside_the_script_is_gone_after_the_next_command(
    command: str, then: str, tmp_path: Path, died_after: Dying
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


@pytest.mark.programs
def test_killed_at_any_write_nothing_is_lost_and_revert_gives_back_every_byte(
    tmp_path: Path, died_after: Dying
) -> None:
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


@pytest.mark.programs
def test_killed_at_any_write_of_a_revert_the_next_one_finishes_it(tmp_path: Path, died_after: Dying) -> None:
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
