"""Saves a recording when the process ends without running its exit handlers: on SIGTERM and on `os._exit`.

In: a function that saves. Out: while the guard is installed, that function is called first, and the process then ends
as it would have without us. Installed only from the start of the profiler to the end of the window.

A Python signal handler cannot run while the main thread hangs in a C call (a collective whose peer has died), where
SIGTERM's default action would end the process at once. So a second thread learns of the signal through Python's wakeup
file descriptor. If the handler does not run in time, this thread saves what does not need the main thread; the trace
does, because only the thread that started the profiler may stop it. Then, or if the handler itself hangs, the second
thread lets the default action happen.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from tracelens.capture.inside.main_thread_timer import MainThreadTimer
from tracelens.launch.inside import user_signals

HANDLER_SECONDS = 3.0
"""How long the handler may take to start: milliseconds in Python code, a kernel's duration where one is waited for."""
SAVE_SECONDS = 25.0
"""How long saving may take: torchrun sends SIGKILL 30 s after SIGTERM."""
STRANDED_SECONDS = 5.0
"""How long the second thread may write; it writes little, and a slow disk must not delay the end of the process."""


class ExitGuard:
    """Saves at SIGTERM and at `os._exit` between `install` and `remove`."""

    def __init__(self, save: Callable[[str], None], stranded: Callable[[str], None] | None = None) -> None:
        """`save(reason)` is called on the main thread; `stranded(reason)` on another, if the main thread hangs in C."""
        self._save = save
        self._stranded = stranded
        self._process = os.getpid()
        self._exit: Any = None
        self._handles_term = False
        self._pipe: int | None = None
        self._pipe_is: tuple[int, int] | None = None
        self._stops_watching = MainThreadTimer(0.0, self._unwatch)
        self._answered = threading.Lock()
        """Acquired once and never released, by the first to answer SIGTERM: the handler or the second thread."""
        self._saving = False
        self._deferred: int | None = None

    def install(self) -> None:
        self._process = os.getpid()
        self._exit, os._exit = os._exit, self._leave
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)
            self._handles_term = True
            self._watch()

    def remove(self) -> None:
        if self._exit is not None:
            if os._exit == self._leave:
                os._exit = self._exit
            self._exit = None
        if self._handles_term and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handles_term = False
            self._unwatch()

    def forked(self) -> None:
        """In a forked child: restore everything, as a DataLoader ends its workers by SIGTERM."""
        if self._handles_term:
            self._unwatch()
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handles_term = False
        if os._exit == self._leave:
            os._exit = self._exit
        self._exit = None

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """While saving: a SIGTERM (torchrun ends all ranks when one has failed) ends the process after the block."""
        self._saving = True
        try:
            with user_signals.deferred(but=self._terminated):
                yield
        finally:
            self._saving = False
            if self._deferred is not None:
                signal.signal(self._deferred, signal.SIG_DFL)
                os.kill(os.getpid(), self._deferred)

    def _watch(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        if (others := signal.set_wakeup_fd(writing, warn_on_full_buffer=False)) != -1:  # asyncio's, for one, stays
            signal.set_wakeup_fd(others)
            os.close(reading)
            os.close(writing)
            return
        self._pipe, self._pipe_is = writing, _identity(writing)
        _thread.start_new_thread(self._wait, (reading, self._pipe_is))

    def _unwatch(self) -> None:
        if self._pipe is None:
            return
        if (others := signal.set_wakeup_fd(-1)) not in (-1, self._pipe):
            signal.set_wakeup_fd(others)
        pipe, self._pipe = self._pipe, None
        _close(pipe, self._pipe_is)  # which ends the thread that reads from it

    def _wait(self, reading: int, identity: tuple[int, int] | None) -> None:
        """Runs on the second thread. Python writes a signal's number into the pipe even while the main thread hangs."""
        with contextlib.suppress(OSError):
            while numbers := os.read(reading, 64):
                if signal.SIGTERM in numbers:
                    time.sleep(HANDLER_SECONDS)
                    if self._answered.acquire(blocking=False):
                        self._save_without_main_thread()
                    else:
                        time.sleep(SAVE_SECONDS - HANDLER_SECONDS)
                    _default_action(signal.SIGTERM)
        _close(reading, identity)
        if identity == self._pipe_is and self._pipe is not None:
            # The script has closed all descriptors: signal numbers must not go to the next file of this number.
            self._stops_watching.start()

    def _save_without_main_thread(self) -> None:
        if self._stranded is None:
            return
        reason = "the process hung in a call that SIGTERM could not interrupt, so its trace could not be written"
        helper = threading.Thread(target=self._stranded, args=(reason,), daemon=True)
        helper.start()
        helper.join(STRANDED_SECONDS)

    def _leave(self, status: int) -> NoReturn:
        leave: Callable[[int], NoReturn] = self._exit or _exit_of_python
        if os.getpid() == self._process:
            self._save(f"the script ended with os._exit({status}) inside the window")
        leave(status)

    def _terminated(self, number: int, _frame: FrameType | None) -> Any:
        if not self._answered.acquire(blocking=False):
            return  # the second thread is about to end the process
        if self._saving:
            self._deferred = number
            return
        if os.getpid() == self._process:
            self._save("the script was ended by SIGTERM inside the window")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def never_free(value: object) -> None:
    """Keep an object alive until the process ends, because its destructor would crash the process."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def leave_now() -> NoReturn:
    """End the process with exit code 0, without its exit handlers."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _identity(descriptor: int) -> tuple[int, int] | None:
    """What file a descriptor refers to, as (device, inode); None for a closed one."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _close(descriptor: int, identity: tuple[int, int] | None) -> None:
    """Close a descriptor if it is still ours: a script that closes all of them may have reused its number."""
    if identity is not None and _identity(descriptor) == identity:
        os.close(descriptor)


def _default_action(number: int) -> None:
    """Let the signal's default action happen, from any thread: Python's `signal.signal` works on the main one only."""
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes, set_handler.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    set_handler(int(number), None)  # None is SIG_DFL
    os.kill(os.getpid(), number)


_exit_of_python = os._exit
