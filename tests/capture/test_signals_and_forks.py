"""Signal handlers, descriptors and forks of the script work as without a recording."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tracelens.launch.inside import hooks, observing, user_signals

# --------------------------------------------------------------------------------------------------------- signals


@pytest.fixture
def alarm() -> Iterator[list[int]]:
    """The usual way to limit a training's time."""
    came: list[int] = []

    def too_long(number: int, _frame: Any) -> None:
        came.append(number)
        raise TimeoutError("the script's own")

    before = signal.signal(signal.SIGALRM, too_long)
    yield came
    signal.signal(signal.SIGALRM, before)


def test_what_a_handler_of_the_scripts_raises_is_not_taken_for_our_mistake(alarm: list[int]) -> None:
    failures: list[str] = []
    removers = [
        hooks.on_failure(failures.append),
        hooks.on_step(lambda _step: signal.raise_signal(signal.SIGALRM)),
    ]
    try:
        with pytest.raises(TimeoutError, match="own"):
            observing.tell("step", observing.observers.step, None)
        assert not failures
        removers.append(hooks.on_step(lambda _step: int("ours")))
        observing.observers.step = observing.observers.step[1:]
        observing.tell("step", observing.observers.step, None)
        assert "invalid literal" in failures[0]
    finally:
        for remove in removers:
            remove()


def test_a_handler_of_the_scripts_runs_after_we_have_saved(alarm: list[int]) -> None:
    from tracelens.capture.inside.exit_guard import ExitGuard

    saved = []
    with pytest.raises(TimeoutError, match="own"):
        with ExitGuard(lambda _reason: None).undisturbed():
            try:
                signal.raise_signal(signal.SIGALRM)
                saved.append("whole")
            except OSError:  # as saving does with a full disk
                saved.append("a part")
        end = time.monotonic() + 5
        while time.monotonic() < end:
            time.sleep(0.001)
    assert saved == ["whole"]
    assert alarm == [signal.SIGALRM]
    assert signal.getsignal(signal.SIGALRM).__name__ == "too_long"  # type: ignore[union-attr]


def test_a_signal_is_not_written_into_a_file_that_took_our_descriptor(tmp_path: Path) -> None:
    from tracelens.capture.inside.exit_guard import ExitGuard

    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    rescue = ExitGuard(lambda _reason: None)
    rescue.install()
    pipe = rescue._pipe
    assert pipe is not None
    with (tmp_path / "users").open("wb", buffering=0) as mine:
        os.dup2(mine.fileno(), pipe)  # as after os.closerange
        try:
            time.sleep(0.1)
            signal.raise_signal(signal.SIGUSR1)
            assert (tmp_path / "users").read_bytes() == b""
            rescue.remove()
            assert signal.set_wakeup_fd(-1) == -1
        finally:
            os.close(pipe)
            signal.signal(signal.SIGUSR1, before)


FORKS = """
import os, sys, warnings
sys.path.insert(0, sys.argv[1])
import torch
from tracelens.capture.inside.main_thread_timer import MainThreadTimer

waits = MainThreadTimer(60.0, print)
os.register_at_fork(before=waits.stop)
for turn in range(20):
    waits.start()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
print("fine")
"""


@pytest.mark.programs
def test_a_fork_finds_no_thread_of_ours_where_python_warns_of_it(tmp_path: Path) -> None:
    """Python 3.12 counts the system's threads, after the functions that are registered for the moment before."""
    (tmp_path / "forks.py").write_text(FORKS)
    for python in {sys.executable, *filter(None, os.environ.get("TRACELENS_OTHER_PYTHONS", "").split(":"))}:
        words = [python, "-W", "always", str(tmp_path / "forks.py"), str(ROOT)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.stdout == "fine\n", done.stderr
        assert "multi-threaded" not in done.stderr


def test_whose_error_it_is_is_told_by_the_handlers() -> None:
    assert not user_signals.raised_by_handler(ValueError("nobody's"))


def test_a_descriptor_that_became_the_scripts_is_not_closed() -> None:
    """A script that makes itself a daemon closes all descriptors, and opens files of the same numbers."""
    from tracelens.capture.inside.exit_guard import ExitGuard

    rescue = ExitGuard(lambda _reason: None)
    rescue.install()
    pipe = rescue._pipe
    assert pipe is not None
    mine, other = os.pipe()
    try:
        os.dup2(other, pipe)
        rescue.remove()
        os.write(pipe, b"still open")
        assert os.read(mine, 20) == b"still open"
    finally:
        for one in (mine, other, pipe):
            os.close(one)
