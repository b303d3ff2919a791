"""Ctrl-C that a library drops, or makes another error of, is KeyboardInterrupt where the body ends."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from tracelens.cli import interrupts


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
