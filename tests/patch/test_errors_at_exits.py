"""A loop that is left with lines that wait: an error of theirs, or a Ctrl-C, ends the script as it would have."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patching import patch_of, script

FOLDS = """
    import sys
    def fold(number):
        for step, (x, y) in enumerate(loader):
            STEP
            print(f"step {step} {loss.item():.3f}", flush=True)  # fires
            if step == 5:
                LEAVES
    for number in range(2):
        fold(number)
    print("end", flush=True)
"""
LEAVES = {"return": "return", "exit": "sys.exit(0)"}
INTERRUPTED = """
import signal
import tracelens_runtime
def settled(value, shown=tracelens_runtime._settled, seen=[]):
    seen.append(value)
    if len(seen) == 3:
        signal.raise_signal(signal.SIGINT)
    return shown(value)
tracelens_runtime._settled = settled
"""
"""A Ctrl-C as the third value is about to be shown; each line has two."""


def ended(folder: Path, way: str, prelude: str = "", output: int | str = subprocess.PIPE) -> tuple[int, str, str]:
    """How the patched script ends, and what it prints on both streams; `output` may name a device."""
    patch = patch_of(folder, script(FOLDS.replace("LEAVES", LEAVES[way])), checked=False)
    for one in patch.files:
        one.path.write_bytes(one.after)
    assert {one.path.name for one in patch.files} == {"train.py", "tracelens_runtime.py"}
    train = folder / "train.py"
    train.write_text(prelude + train.read_text())
    command = f"{sys.executable} train.py" + (f" > {output}" if isinstance(output, str) else "")
    done = subprocess.run(
        ["sh", "-c", f"exec {command}"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def finished(text: str) -> list[int]:
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("step ")]


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("way", LEAVES)
def test_an_error_of_a_line_that_waits_is_raised(way: str, tmp_path: Path) -> None:
    """The disk is full."""
    status, _, errors = ended(tmp_path, way, output="/dev/full")
    assert status == 1
    assert "OSError" in errors
    assert "ignored" not in errors


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_an_interrupt_in_lines_that_wait_comes_behind_them(tmp_path: Path) -> None:
    status, output, errors = ended(tmp_path, "return", INTERRUPTED)
    assert status == -signal.SIGINT, errors
    assert finished(output) == list(range(6)), "no line of a finished batch is missing, and no other loop begins"
