"""A step that does not end, a process that hangs in a C call, a forked child: what was recorded is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import SCRIPTS
from tests.support.recording import PLAN, record
from tracelens import run

pytestmark = pytest.mark.programs


def test_a_step_that_does_not_end_closes_the_window(tmp_path: Path) -> None:
    """A long evaluation inside the window would fill the disk with its events."""
    (tmp_path / "train.py").write_text(
        PRELUDE + "model = torch.nn.Linear(8, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for number in range(60):\n"
        "    model(torch.ones(4, 8)).sum().backward(); optimizer.step(); optimizer.zero_grad()\n"
        "    if number == 17:\n"
        "        end = time.monotonic() + 4\n"
        "        while time.monotonic() < end: model(torch.ones(4, 8)); time.sleep(0.002)\n"
    )
    outcome = record(tmp_path, "train.py", plan=replace(PLAN, most_window_seconds=0.5))
    assert (outcome.status, outcome.ranks, outcome.complete) == (0, 1, False)
    assert "longer than the window may" in (outcome.reason or "")
    assert run.read(outcome.folder).recordings[0].clock.profiled_ns


def test_what_cuda_knows_is_not_freed_in_a_forked_child(tmp_path: Path) -> None:
    """A CUDA event that is destroyed in a forked DataLoader worker aborts the worker, and with it the training."""
    from tracelens.capture.inside.agent import RecordingAgent

    engine = RecordingAgent({"run": str(tmp_path), "cwd": str(tmp_path)})
    freed = tmp_path / "freed"

    class Event:
        def __del__(self) -> None:
            if os.getpid() != parent:
                freed.write_text("")

    parent = os.getpid()
    engine._windows.data.ends.append(Event())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads
        child = os.fork()
    if not child:
        engine.forked()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not freed.exists()
    assert engine._windows.data.ends


# ------------------------------------------------------------------------------ signals to a hung process

HANGS = """
import ctypes, os, signal, threading, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(60):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 17:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        lock = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(lock)
        ctypes.CDLL(None).pthread_mutex_lock(lock)  # returns for no signal
"""


def test_sigterm_ends_a_process_that_hangs_in_a_c_call(tmp_path: Path) -> None:
    """A handler in Python never gets its turn there; without us the signal's default action ends it."""
    (tmp_path / "train.py").write_text(PRELUDE + HANGS)
    begin = time.monotonic()
    outcome = record(tmp_path, "train.py")
    assert outcome.status == -signal.SIGTERM
    assert time.monotonic() - begin < 240  # it would hang for good
    assert (outcome.ranks, outcome.complete) == (0, False)  # no trace: only the thread that hangs could have stopped it
    assert outcome.reason == (
        "the process hung in a call that SIGTERM could not interrupt, so its trace could not be written, after 18 steps"
    )
    meta = json.loads((outcome.folder / run.RUN_FILE).read_text())
    (entry,) = meta["ranks"]
    assert len(entry["clock"]["unprofiled_ns"]) == 8
    assert entry["steps_seen"] == 18
    where = json.loads((outcome.folder / entry["sources"]).read_text())["samples"][-1]
    assert where["path"] == "train.py"
    assert "returns for no signal" in (PRELUDE + HANGS).splitlines()[where["line"] - 1]


def test_sigterm_waits_for_a_save_that_has_begun(tmp_path: Path) -> None:
    """torchrun ends the other ranks as soon as one has failed, while they save because of the same failure."""
    code = (
        "import os, signal, sys, time; sys.path.insert(0, sys.argv[1]);"
        "from tracelens.capture.inside.exit_guard import ExitGuard; rescue = ExitGuard(print); rescue.install()\n"
        "with rescue.undisturbed():\n"
        "    os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.1); print('saved', flush=True)\n"
        "print('not reached')\n"
    )
    root = str(SCRIPTS.parent.parent)
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "saved\n"), done.stderr
