"""`make` as a whole: places, ids, evidence, formatting, and the checks that no rewrite escapes."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from unittest import mock

import pytest

from tests.support.patching import assert_same, defer, fired, patch_of, patched_text, script
from tracelens.errors import UsageError
from tracelens.model import Edit, Location, Patch, Stall
from tracelens.patch.code.source import parse
from tracelens.patch.files import trust, vendored
from tracelens.patch.recipes import Wanted, make

SUM = """
    def main():
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            # every fourth line
            if step % 4 == 0:
                print(step, total)  # so far
        return total
    result = main()
"""


def stall(name: str, line: int | None, exposed: int | None = 1_200_000, wait: int = 3_100_000) -> Stall:
    location = None if line is None else Location("train.py", line)
    return Stall(name, "cudaStreamSynchronize", "d2h", 1.0, wait, 0, exposed, "unknown", location)


def again(folder: Path, patch: Patch, edits: tuple[Edit, ...]) -> Patch:
    """Patch the patched file."""
    text = patched_text(patch)
    runtime = next(one for one in patch.files if one.path.name != "train.py")
    runtime.path.write_bytes(runtime.after)
    return patch_of(folder, text, edits)


# ------------------------------------------------------------------------------------------------ formatting


VARIANTS = {
    "as it is": lambda text: text,
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "two spaces": lambda text: text.replace("    ", "  "),
    "tabs": lambda text: text.replace("    ", "\t"),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "no newline after the loop": lambda text: text[: text.index("    return total")].rstrip("\n"),
    "byte order mark": lambda text: "\ufeff" + text,
    "non-ASCII": lambda text: text.replace("every fourth line", "jede vierte Zeile: größer"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_lines_outside_of_the_hunks_keep_their_bytes(name: str, tmp_path: Path) -> None:
    text = VARIANTS[name](script(SUM))
    patch = patch_of(tmp_path, text, defer(text.replace("\r\n", "\n").lstrip("\ufeff")))
    before, after = text.encode(), patched_text(patch).encode()
    assert patch.declined == ()
    if "\r\n" in text:
        assert after.count(b"\n") == after.count(b"\r\n")
    touched = [line for line in before.splitlines(keepends=True) if line not in after.splitlines(keepends=True)]
    assert all(b"for step" in line or b"total" in line or b"step % 4" in line for line in touched)
    assert before.endswith((b"\n", b"\r\n")) == after.endswith((b"\n", b"\r\n"))
    assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    assert trust.mistake(parse(tmp_path / "train.py", "train.py", before), after) is None


@pytest.mark.parametrize("name", VARIANTS)
def test_git_accepts_the_diff_and_makes_the_same_bytes(name: str, tmp_path: Path) -> None:
    text = VARIANTS[name](script(SUM))
    folder = tmp_path / "a project"
    folder.mkdir()
    patch = patch_of(folder, text, defer(text.replace("\r\n", "\n").lstrip("\ufeff")))
    (tmp_path / "patch").write_bytes(patch.diff.encode("utf-8", errors="surrogateescape"))
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", str(tmp_path / "patch")]
    subprocess.run(
        command, cwd=folder, check=True, env={"GIT_CEILING_DIRECTORIES": str(tmp_path), "PATH": "/usr/bin:/bin"}
    )
    for one in patch.files:
        assert one.path.read_bytes() == one.after


def test_comments_move_with_their_statements(tmp_path: Path) -> None:
    text = script(SUM)
    after = patched_text(patch_of(tmp_path, text))
    for comment in ("# fires", "# every fourth line", "# so far"):
        assert after.count(comment) == 1


def test_latin_1_stays_latin_1(tmp_path: Path) -> None:
    text = "# -*- coding: latin-1 -*-\n" + script(SUM).replace("so far", "größer")
    path = tmp_path / "train.py"
    path.write_bytes(text.encode("latin-1"))
    patch = make(tmp_path, path, defer(text), (), Wanted(10))
    after = next(one.after for one in patch.files if one.path == path)
    assert "größer".encode("latin-1") in after


# -------------------------------------------------------------------------------------------------- stability


def test_a_second_run_over_the_patched_file_changes_nothing(tmp_path: Path) -> None:
    text = script(SUM)
    first = patch_of(tmp_path, text, (Edit("defer-read", interval=10),))
    assert not first.empty
    second = again(tmp_path, first, (Edit("defer-read", interval=10),))
    assert second.empty
    assert second.diff == ""


def test_an_unstable_rewrite_is_given_up(tmp_path: Path) -> None:
    text = script(SUM)
    with mock.patch("tracelens.patch.files.trust.mistake", return_value="the patched file does not compile: line 3"):
        patch = patch_of(tmp_path, text)
    assert patch.empty
    assert patch.hunks == ()
    assert "left as it is: the patched file does not compile" in patch.declined[0].obstacle


def test_a_lost_comment_or_a_syntax_error_is_noticed(tmp_path: Path) -> None:
    source = parse(tmp_path / "a.py", "a.py", b"x = 1  # keep me\n")
    assert trust.mistake(source, b"x = 1  # keep me\n") is None
    assert "comment" in (trust.mistake(source, b"x = 1\n") or "")
    assert "parse" in (trust.mistake(source, b"x = = 1  # keep me\n") or "")
    assert "compile" in (trust.mistake(source, b"return  # keep me\n") or "")


# ------------------------------------------------------------------------------------- places, ids, evidence


def test_evidence_comes_from_the_stalls(tmp_path: Path) -> None:
    text = script(SUM)
    (place,) = fired(text)
    path = tmp_path / "train.py"
    path.write_text(text)
    edits = (Edit("defer-read", stalls=("s1",), locations=(place,), interval=10),)
    (hunk,) = make(tmp_path, path, edits, (stall("s1", place.line),), Wanted(10)).hunks
    assert hunk.evidence == "1 call per step, 3.10 ms per step host-blocked, 1.20 ms exposed"
    (hunk,) = make(tmp_path, path, edits, (stall("s1", place.line, exposed=None),), Wanted(10)).hunks
    assert hunk.evidence.endswith("exposed time unknown")
    (hunk,) = make(tmp_path, path, edits, (stall("s1", place.line, exposed=2_667),), Wanted(10)).hunks
    assert hunk.evidence.endswith("2.7 µs exposed"), "0.00 ms would be a zero that nobody measured"


def test_a_read_that_did_not_fire_stays(tmp_path: Path) -> None:
    text = script(
        """
        total, others = 0.0, []
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            if step == 5000:
                others.append(loss.item())
        print(total)
        """
    )
    patch = patch_of(tmp_path, text)
    assert "        others.append(loss.item())\n" in patched_text(patch)
    assert "1 value" in patch.hunks[0].reason
    elsewhere = patch_of(tmp_path, text, (Edit("defer-read", locations=(Location("train.py", 1),)),))
    assert elsewhere.empty
    assert "no call on this line" in elsewhere.declined[0].obstacle


def test_without_a_line_the_reads_of_each_batch_in_the_only_training_loop_are_meant(tmp_path: Path) -> None:
    text = script(SUM)
    path = tmp_path / "train.py"
    path.write_text(text)
    edits = (Edit("defer-read", stalls=("s1",), interval=10),)
    patch = make(tmp_path, path, edits, (stall("s1", None),), Wanted(10))
    assert len(patch.hunks) == 1
    assert_same(tmp_path, text, patch)


def test_without_a_line_and_with_two_training_loops_nothing_is_guessed(tmp_path: Path) -> None:
    text = script(SUM + SUM.replace("main", "other"))
    patch = patch_of(tmp_path, text, (Edit("defer-read", interval=10),))
    assert patch.empty
    assert "2 training loops" in patch.declined[0].obstacle
    assert "record again" in patch.declined[0].by_hand


def test_a_gradient_scaler_is_reported_with_its_cure(tmp_path: Path) -> None:
    text = script(
        """
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for x, y in loader:
            scaler.scale(criterion(model(x), y)).backward()
            scaler.step(optimizer)  # fires
        """
    )
    patch = patch_of(tmp_path, text)
    assert "GradScaler" in patch.declined[0].obstacle
    assert "fused=True" in patch.declined[0].by_hand


def test_an_unknown_id_is_a_usage_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        patch_of(tmp_path, script(SUM), only=("TL999",))
    assert "TL101" in caught.value.hint


def test_python_2_and_files_of_others_are_declined(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    old = patch_of(tmp_path / "project", "print loss.item()  # fires\n")
    assert "does not parse" in old.declined[0].obstacle
    elsewhere = (Edit("defer-read", locations=(Location("/usr/lib/python3/site-packages/a.py", 3),)),)
    foreign = patch_of(tmp_path / "project", script(SUM), elsewhere)
    assert foreign.empty
    assert "not a file of this project" in foreign.declined[0].obstacle


@pytest.mark.parametrize("path", ["a" * 300 + ".py", "b\0.py", "/" + "c/" * 3000 + "d.py"])
def test_places_that_no_file_can_have_are_said_and_not_looked_for(path: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(SUM), (Edit("defer-read", locations=(Location(path, 3),)),))
    assert patch.empty
    assert "not a file of this project" in patch.declined[0].obstacle


def functions(count: int) -> str:
    """A long file: functions with a training loop each."""
    body = """
    def train_{n}(model, loader, optimizer, criterion):
        total_{n} = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total_{n} += loss.item()
            if step % 100 == 0:
                print("step", step, "loss", total_{n} / (step + 1))
        return total_{n}
    """
    return "\n".join(script(body.format(n=n)) for n in range(count))


def test_the_time_for_a_patch_grows_with_the_length_of_the_file_and_not_faster(tmp_path: Path) -> None:
    seconds = []
    for count in (20, 80):
        text = functions(count)
        lines = [n for n, line in enumerate(text.splitlines(), 1) if "loss.item()" in line]
        edits = (Edit("defer-read", locations=tuple(Location("train.py", n) for n in lines), interval=10),)
        begun = time.process_time()
        patch = patch_of(tmp_path, text, edits)
        seconds.append(time.process_time() - begun)
        assert len(patch.hunks) == count
    assert seconds[1] < 10 * seconds[0]  # four times the lines; what is quadratic takes sixteen times as long


def test_a_loop_in_another_file_of_the_project_is_patched_there(tmp_path: Path) -> None:
    engine = "def train(loader, step):\n    total = 0.0\n    for x in loader:\n        loss = step(x)\n"
    engine += "        loss.backward()\n        total += loss.item()  # fires\n    return total\n"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "engine.py").write_text(engine)
    (tmp_path / "train.py").write_text("from lib.engine import train\n")
    edits = (Edit("defer-read", locations=fired(engine, path="lib/engine.py"), interval=10),)
    patch = make(tmp_path, tmp_path / "train.py", edits, (), Wanted(10))
    assert {one.path.relative_to(tmp_path).as_posix() for one in patch.files} == {
        "lib/engine.py",
        "tracelens_runtime.py",
    }
    assert patch.hunks[0].location == Location("lib/engine.py", 6, "train")


# ---------------------------------------------------------------------------------------- the vendored runtime


def test_the_runtime_is_vendored_once_and_renewed_when_it_is_old(tmp_path: Path) -> None:
    text = script(SUM)
    runtime = tmp_path / "tracelens_runtime.py"
    assert {one.path.name: one.before for one in patch_of(tmp_path, text).files}["tracelens_runtime.py"] is None
    runtime.write_bytes(vendored.content())
    assert [one.path.name for one in patch_of(tmp_path, text).files] == ["train.py"]
    runtime.write_bytes(b"# tracelens runtime 0\n")
    renewed = {one.path.name: one for one in patch_of(tmp_path, text).files}["tracelens_runtime.py"]
    assert (renewed.before, renewed.after) == (b"# tracelens runtime 0\n", vendored.content())
    runtime.write_bytes(b"print('mine')\n")
    with pytest.raises(UsageError, match="not a file of TraceLens"):
        patch_of(tmp_path, text)


def test_imports_go_below_the_docstring_and_future_imports(tmp_path: Path) -> None:
    text = '#!/usr/bin/env python\n"""Train."""\nfrom __future__ import annotations\n\n' + script(SUM)
    after = patched_text(patch_of(tmp_path, text))
    assert after.index("import tracelens_runtime") > after.index("from torch import nn")
    text = '#!/usr/bin/env python\n"""Train."""\nfrom __future__ import annotations\nimport os\nx = 1\n' + script(SUM)
    after = patched_text(patch_of(tmp_path, text))
    assert after.splitlines()[7] == "import tracelens_runtime"  # below the script's own import of torch


ABOVE_TORCH = {
    "a variable of the environment": "import os\nos.environ['OMP_NUM_THREADS'] = '1'\n",
    "in a try": "import os\nos.environ['A'] = ''\ntry:\n    import torch\nexcept ImportError:\n    raise\nx = 1\n",
}


@pytest.mark.parametrize("name", ABOVE_TORCH)
def test_the_runtime_is_not_imported_before_torch(name: str, tmp_path: Path) -> None:
    text = ABOVE_TORCH[name] + script(SUM)
    lines = patched_text(patch_of(tmp_path, text)).splitlines()
    above = lines[: lines.index("import tracelens_runtime")]
    assert any(line.strip() == "import torch" for line in above)
    assert_same(tmp_path, text, patch_of(tmp_path, text))


def test_new_names_avoid_the_names_of_the_file(tmp_path: Path) -> None:
    text = "ahead = replay_batch = loss_value = 7\n" + script(SUM) + "print(ahead, replay_batch, loss_value)\n"
    assert_same(tmp_path, text, patch_of(tmp_path, text))
