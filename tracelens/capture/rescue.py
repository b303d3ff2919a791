"""Saves a recording when the process is about to end in a way that runs no exit handler.

In: a function that saves. Out: that function is called on SIGTERM and on `os._exit` while installed, and the process
then ends exactly as it would have. Installed only while there is something to lose: a Python handler cannot run while
the process hangs in a C call, where SIGTERM's default action would have ended it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn


class Rescue:
    """`install` before the window, `remove` after it."""

    def __init__(self, save: Callable[[str], None]) -> None:
        self._save = save
        self._process = os.getpid()
        self._exit: Any = None
        self._handles_term = False

    def install(self) -> None:
        self._process = os.getpid()
        self._exit, os._exit = os._exit, self._leave
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)
            self._handles_term = True

    def remove(self) -> None:
        if self._exit is not None:
            if os._exit == self._leave:
                os._exit = self._exit
            self._exit = None
        if self._handles_term and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handles_term = False

    def _leave(self, status: int) -> NoReturn:
        leave: Callable[[int], NoReturn] = self._exit or _exit_of_python
        if os.getpid() == self._process:
            self._save(f"the script ended with os._exit({status}) inside the window")
        leave(status)

    def _terminated(self, number: int, _frame: FrameType | None) -> Any:
        if os.getpid() == self._process:
            self._save("the script was ended by SIGTERM inside the window")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


_exit_of_python = os._exit
