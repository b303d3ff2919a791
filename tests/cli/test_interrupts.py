"""Ctrl-C that a library drops, or makes another error of, is KeyboardInterrupt where the body ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.support.places import ROOT
from tracelens.cli import interrupts


@pytest.fixture(autouse=True)
def as_in_a_terminal() -> Iterator[None]:
    """Ctrl-C raises, though what a shell starts with `&` ignores it, as may who runs these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, ())  # a call into Python's signal code: the handler has run after it


def test_what_nobody_drops_passes() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        press()


def test_a_dropped_one_is_raised_at_the_end_of_the_body() -> None:
    went_on = []
    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        with pytest.raises(KeyboardInterrupt):
            press()
        went_on.append(1)
    assert went_on


def test_a_long_body_asks() -> None:
    asked = []
    with pytest.raises(KeyboardInterrupt), interrupts.kept() as check:
        check()
        with pytest.raises(KeyboardInterrupt):
            press()
        asked.append(1)
        check()
        asked.append(2)
    assert asked == [1]


def test_an_error_that_was_made_of_it_is_not_shown() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, interrupts.kept():
        try:
            press()
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__ on 'Field'") from error
    assert caught.value.__suppress_context__


def test_other_errors_and_results_are_as_they_were() -> None:
    with pytest.raises(ValueError, match="mine"), interrupts.kept():
        raise ValueError("mine")
    with interrupts.kept():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_inside_another_one_the_outer_one_knows() -> None:
    went_on = []
    with pytest.raises(KeyboardInterrupt), interrupts.kept():
        with interrupts.kept(), pytest.raises(KeyboardInterrupt):
            press()
        went_on.append(1)
    assert went_on


def test_a_handler_of_somebody_else_and_other_threads_are_left_alone() -> None:
    def mine(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, mine)
    try:
        with interrupts.kept():
            assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    seen = []

    def elsewhere() -> None:
        with interrupts.kept():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


EARLY = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "tracelens.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from tracelens.__main__ import main
sys.exit(main())
"""


@pytest.mark.programs
def test_while_the_commands_are_loaded_it_ends_the_process_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], check=False, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")
    ignored = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{EARLY}"
    done = subprocess.run(
        [sys.executable, "-c", ignored, "--version"], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0 and done.stdout.startswith("tracelens ")
