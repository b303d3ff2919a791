"""Saves a recording when the process is about to end in a way that runs no exit handler.

In: a function that saves. Out: that function is called on SIGTERM and on `os._exit` while installed, and the process
then ends exactly as it would have. Installed only while there is something to lose.

A Python handler cannot run while the main thread hangs in a C call (a collective whose peer has died), where SIGTERM's
default action would have ended the process at once. So a second thread learns of the signal through Python's wakeup
descriptor and, if the handler does not get its turn, keeps what needs no main thread (which is not the trace: only
the thread that started the profiler may stop it); then, or if the handler hangs itself, the default action happens.
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

TURN_SECONDS = 3.0
"""A main thread that runs Python gets to the handler within milliseconds; one in a long kernel, within its length."""
SAVE_SECONDS = 25.0
"""Saving may take so long: torchrun sends SIGKILL 30 s after SIGTERM."""
STRANDED_SECONDS = 5.0
"""What the second thread writes is small; a disk that does not take it by then may not hold the process up."""


class ExitGuard:
    """`install` before the window, `remove` after it."""

    def __init__(self, save: Callable[[str], None], stranded: Callable[[str], None] | None = None) -> None:
        """`save` is called on the main thread; `stranded`, on another, if the main thread hangs in a C call."""
        self._save = save
        self._stranded = stranded
        self._process = os.getpid()
        self._exit: Any = None
        self._handles_term = False
        self._pipe: int | None = None
        self._pipe_is: tuple[int, int] | None = None
        self._forgets = MainThreadTimer(0.0, self._unwatch)
        self._turn = threading.Lock()
        """Taken, for good, by whoever answers SIGTERM: the handler, or the thread that waits for it in vain."""
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
        """In a forked child: signals to it are not our business (a DataLoader ends its workers by SIGTERM)."""
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
        """While saving: a SIGTERM in between (torchrun ends the ranks of a failed one) ends the process afterwards."""
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
        if (others := signal.set_wakeup_fd(writing, warn_on_full_buffer=False)) != -1:  # asyncio's, say: it stays
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
        """On a thread of its own; Python writes a signal's number into the pipe even while the main thread hangs."""
        with contextlib.suppress(OSError):
            while numbers := os.read(reading, 64):
                if signal.SIGTERM in numbers:
                    time.sleep(TURN_SECONDS)
                    if self._turn.acquire(blocking=False):
                        self._keep_what_needs_no_main_thread()
                    else:
                        time.sleep(SAVE_SECONDS - TURN_SECONDS)
                    _let_it_end(signal.SIGTERM)
        _close(reading, identity)
        if identity == self._pipe_is and self._pipe is not None:  # the script has closed all descriptors:
            self._forgets.start()  # signals shall not be written into the file that has this number next

    def _keep_what_needs_no_main_thread(self) -> None:
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
        if not self._turn.acquire(blocking=False):
            return  # too late: the other thread is about to end the process
        if self._saving:
            self._deferred = number
            return
        if os.getpid() == self._process:
            self._save("the script was ended by SIGTERM inside the window")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def never_free(value: object) -> None:
    """Keep something alive until the process ends: its destructor would take the process along."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def leave_now() -> NoReturn:
    """End the process as one that has done what it was asked for, without its exit handlers."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close(descriptor: int, identity: tuple[int, int] | None) -> None:
    """Close it if it is still ours: a script that closes all descriptors may have opened a file of that number."""
    if identity is not None and _identity(descriptor) == identity:
        os.close(descriptor)


def _let_it_end(number: int) -> None:
    """The signal's default action, from a thread that is not the main one: Python's own function refuses there."""
    default = ctypes.CDLL(None).signal
    default.argtypes, default.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    default(int(number), None)
    os.kill(os.getpid(), number)


_exit_of_python = os._exit
