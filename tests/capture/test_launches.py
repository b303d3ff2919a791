"""The command line around a real program: Ctrl-C, a folder that cannot be written, no home, other Pythons."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import ROOT, SCRIPTS

pytest.importorskip("torch")
# A shell lets its background jobs ignore Ctrl-C, and programs inherit that: these heed it.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
COMMAND = [sys.executable, "-c", HEED + "from tracelens.cli import main; raise SystemExit(main())", "profile"]
INTERPRETERS = "TRACELENS_OTHER_PYTHONS"
"""Environment variable: Pythons (3.10 to 3.13, with any torch) to try the injection with, separated by colons."""

WAITS = """
import sys, time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(100_000):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 5:
        print("ready", flush=True)
    time.sleep(0.01)
"""


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


@pytest.mark.programs
def test_ctrl_c_ends_the_recording_as_it_ends_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PRELUDE + WAITS)
    with subprocess.Popen(
        [*COMMAND, "train.py"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGINT)
        try:
            _, errors = child.communicate(timeout=120)
        finally:
            child.kill()
    assert child.returncode == -signal.SIGINT  # which a shell shows as 130
    assert "KeyboardInterrupt" in errors
    assert "the recording is not complete" in errors


@pytest.mark.programs
def test_without_home_and_in_a_folder_that_nobody_can_write(tmp_path: Path) -> None:
    surroundings = {key: value for key, value in environment().items() if key not in ("HOME", "USER", "LOGNAME")}
    words = ["-q", str(SCRIPTS / "plain.py"), "40"]
    refused = subprocess.run([*COMMAND, *words], cwd="/proc", env=surroundings, capture_output=True, text=True,
                             check=False)  # fmt: skip
    assert refused.returncode == 2
    assert "run folder cannot be made" in refused.stderr
    out = str(tmp_path / "run")
    done = subprocess.run([*COMMAND, "-o", out, *words], cwd="/proc", env=surroundings, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["complete"]


@pytest.mark.parametrize("python", [one for one in os.environ.get(INTERPRETERS, "").split(":") if one] or [None])
def test_other_pythons_and_torches_are_recorded(python: str | None, tmp_path: Path) -> None:
    if python is None:
        pytest.skip(f"{INTERPRETERS} names no other Python")
    words = [python, str(SCRIPTS / "plain.py"), "60"]
    plain = subprocess.run(words, capture_output=True, text=True, check=True)
    ours = subprocess.run([*COMMAND, "-q", "-o", str(tmp_path / "run"), "--", *words], cwd=tmp_path,
                          env=environment(), capture_output=True, text=True, check=False)  # fmt: skip
    assert (ours.returncode, ours.stdout) == (0, plain.stdout), ours.stderr
    meta = json.loads((tmp_path / "run" / "run.json").read_text())
    assert meta["complete"], meta["reason"]
    print(meta["environment"]["python"], meta["environment"]["torch"])
