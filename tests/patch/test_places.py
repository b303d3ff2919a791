"""Which places of a project are patched, by which evidence, and what is said of the others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.patching import SUM, assert_same, fired, patch_of, patched_text, script
from tracelens.errors import UsageError
from tracelens.model import Edit, Location, Stall
from tracelens.patch.recipes import PatchOptions, make


def stall(name: str, line: int | None, exposed: int | None = 1_200_000, wait: int = 3_100_000) -> Stall:
    location = None if line is None else Location("train.py", line)
    return Stall(name, "cudaStreamSynchronize", "d2h", 1.0, wait, 0, exposed, "unknown", location)


# ------------------------------------------------------------------------------------- places, ids, evidence


def test_evidence_comes_from_the_stalls(tmp_path: Path) -> None:
    text = script(SUM)
    (place,) = fired(text)
    path = tmp_path / "train.py"
    path.write_text(text)
    edits = (Edit("defer-read", stalls=("s1",), locations=(place,), interval=10),)
    (hunk,) = make(tmp_path, path, edits, (stall("s1", place.line),), PatchOptions()).hunks
    assert hunk.evidence == "1 call per step, 3.10 ms per step host-blocked, alone it costs 1.20 ms"
    (hunk,) = make(tmp_path, path, edits, (stall("s1", place.line, exposed=None),), PatchOptions()).hunks
    assert hunk.evidence.endswith("what it costs is not known")
    (hunk,) = make(tmp_path, path, edits, (stall("s1", place.line, exposed=2_667),), PatchOptions()).hunks
    assert hunk.evidence.endswith("it costs 2.7 µs"), "0.00 ms would be a zero that nobody measured"


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
    patch = make(tmp_path, path, edits, (stall("s1", None),), PatchOptions())
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
    return script("".join(body.format(n=n) for n in range(count)))


@pytest.mark.slow
def test_the_time_for_a_patch_grows_with_the_length_of_the_file_and_not_faster(tmp_path: Path) -> None:
    seconds = []
    for count in (12, 48):
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
    patch = make(tmp_path, tmp_path / "train.py", edits, (), PatchOptions())
    assert {one.path.relative_to(tmp_path).as_posix() for one in patch.files} == {
        "lib/engine.py",
        "lib/tracelens_runtime.py",
    }
    assert patch.hunks[0].location == Location("lib/engine.py", 6, "train")
