"""Something to do on the main thread at a moment that no step of the script marks: after so many seconds.

In: seconds and a function. Out: the function runs on the main thread, between two instructions of whatever Python
code is running there. Apart from the agent because it is about threads, and the agent is about steps.

The thread that waits is made with `_thread`, so it is not listed by `threading`; before a fork it can be stopped,
because Python 3.12 warns of forking beside other threads. The main thread is reached by Python's own pending calls:
a profiler must be started and stopped there, or torch records no GPU work.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
import time
from collections.abc import Callable

STOP_SECONDS = 2.0
DEPARTURE_SECONDS = 0.05
"""A thread that Python has let go of is the system's for some microseconds more, and counts in a fork's warning."""


def wait_until_gone(native: int | None) -> None:
    """Return when the system has no thread of this number any more."""
    end = time.monotonic() + DEPARTURE_SECONDS
    while native is not None and os.path.exists(f"/proc/self/task/{native}") and time.monotonic() < end:
        time.sleep(0)


class MainThreadTimer:
    """Calls `act` after `seconds`, on the main thread; waits again if `worth`, asked on another thread, says no."""

    def __init__(self, seconds: float, act: Callable[[], None], worth: Callable[[], bool] | None = None) -> None:
        self._seconds = seconds
        self._worth = worth
        self._act = act
        self._wake = _thread.allocate_lock()
        self._gone = _thread.allocate_lock()
        self._native: int | None = None
        self._pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._on_main)

    def start(self) -> None:
        """Begin, or begin again, to wait."""
        if self._gone.acquire(blocking=False):
            self._wake.acquire(blocking=False)
            _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """No longer wait; returns when the thread has gone."""
        if self._wake.locked() and self._gone.locked():
            self._wake.release()
            if self._gone.acquire(timeout=STOP_SECONDS):
                self._gone.release()
                wait_until_gone(self._native)

    def _run(self) -> None:
        self._native = threading.get_native_id()
        try:
            while not self._wake.acquire(timeout=self._seconds):
                if self._worth is None or self._worth():
                    ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
                    return
        except Exception:  # noqa: BLE001 -- a thread of ours in the user's process: nothing of it may show
            return
        finally:
            self._gone.release()

    def _on_main(self, _unused: object) -> int:
        try:
            self._act()
        except Exception:  # noqa: BLE001 -- raised between two instructions of the user's, it would be theirs
            return 0
        return 0
