"""Calls that are made later on the main thread: once, and none of the script's business."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from tracelens.capture.inside.main_thread_timer import MainThreadTimer

# ------------------------------------------------------------------------------ the last resort


def spin(until: Any, seconds: float = 5.0) -> bool:
    """Run Python code, between whose instructions pending calls are made."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        pass
    return bool(until())


def test_something_happens_later_on_the_main_thread_and_once() -> None:
    looked: list[int] = []
    acted: list[int] = []
    before = threading.enumerate()
    later = MainThreadTimer(
        0.02, lambda: acted.append(threading.get_ident()), lambda: looked.append(1) or len(looked) > 2
    )
    later.start()
    assert threading.enumerate() == before  # the script does not see the thread
    assert spin(lambda: acted)
    assert acted == [threading.main_thread().ident]
    assert len(looked) == 3
    assert not spin(lambda: len(acted) > 1, 0.1)


def test_what_was_to_happen_later_can_be_stopped_and_begun_again() -> None:
    acted: list[int] = []
    later = MainThreadTimer(0.1, lambda: acted.append(1))
    for _ in range(3):  # around forks
        later.start()
        later.stop()
    later.stop()
    assert not spin(lambda: acted, 0.3)
    later.start()
    assert spin(lambda: acted)


def test_an_error_in_it_is_nobodys_business(capsys: pytest.CaptureFixture[str]) -> None:
    for later in (MainThreadTimer(0.01, lambda: 1 // 0), MainThreadTimer(0.01, lambda: None, lambda: 1 // 0 > 0)):
        later.start()
        spin(lambda: False, 0.1)
        later.stop()
    assert capsys.readouterr().err == ""


def test_a_wakeup_descriptor_of_the_scripts_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracelens.capture.inside.exit_guard import ExitGuard

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)
    rescue = ExitGuard(lambda reason: None)
    try:
        rescue.install()
        assert signal.getsignal(signal.SIGTERM) == rescue._terminated
        rescue.remove()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.set_wakeup_fd(before) == writing
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)
