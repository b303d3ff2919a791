"""A timer that calls a function on the main thread, between two instructions of the Python code running there.

In: seconds and a function. Out: the call. The main thread is needed because a profiler must be started and stopped
there, or torch records no GPU work; it is reached through Python's pending calls.

The waiting thread is made with `_thread`, so that `threading` does not list it. It can be stopped before a fork,
because Python 3.12 warns of forks in a process with several threads.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
import time
from collections.abc import Callable

STOP_SECONDS = 2.0
"""How long `stop` waits for the thread."""
GONE_SECONDS = 0.05
"""How long to wait for the system: a thread that Python has ended exists a little longer, and a fork's warning counts
it."""


def wait_until_gone(native: int | None) -> None:
    """Wait until the system has no thread with this native id any more."""
    end = time.monotonic() + GONE_SECONDS
    while native is not None and os.path.exists(f"/proc/self/task/{native}") and time.monotonic() < end:
        time.sleep(0)


class MainThreadTimer:
    """Calls `act` on the main thread after `seconds`; waits again if `condition()`, on the timer's thread, is False."""

    def __init__(self, seconds: float, act: Callable[[], None], condition: Callable[[], bool] | None = None) -> None:
        self._seconds = seconds
        self._condition = condition
        self._act = act
        self._wake = _thread.allocate_lock()
        self._gone = _thread.allocate_lock()
        self._native: int | None = None
        self._pending = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._on_main)

    def start(self) -> None:
        """Start the timer; nothing if it runs already."""
        if self._gone.acquire(blocking=False):
            self._wake.acquire(blocking=False)
            _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """Stop the timer; returns when its thread has ended."""
        if self._wake.locked() and self._gone.locked():
            self._wake.release()
            if self._gone.acquire(timeout=STOP_SECONDS):
                self._gone.release()
                wait_until_gone(self._native)

    def _run(self) -> None:
        self._native = threading.get_native_id()
        try:
            while not self._wake.acquire(timeout=self._seconds):
                if self._condition is None or self._condition():
                    ctypes.pythonapi.Py_AddPendingCall(self._pending, None)
                    return
        except Exception:  # noqa: BLE001 -- an error on our thread must not show in the user's process
            return
        finally:
            self._gone.release()

    def _on_main(self, _unused: object) -> int:
        try:
            self._act()
        except Exception:  # noqa: BLE001 -- it would be raised between two instructions of the user's code
            return 0
        return 0
