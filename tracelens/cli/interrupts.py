"""Ctrl-C ends a command also where a library has swallowed it, or turned it into an error of its own.

Python raises KeyboardInterrupt at whatever runs. Import locks drop it, LibCST's visitors and class bodies make other
errors of it: a plan then lacks a patch with a false reason, and the command goes on as if nothing had been pressed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def kept() -> Iterator[Callable[[], None]]:
    """Ctrl-C in the body raises `KeyboardInterrupt` at the latest where the body ends, in place of other errors.

    A body that goes on for long calls what it gets: that raises it, if one was dropped before.
    """
    ours = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or ours is not signal.default_int_handler:
        yield lambda: None  # somebody else decides what Ctrl-C means, an outer `kept` for one
        return
    pressed = False

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    def note(_number: int, _frame: FrameType | None) -> NoReturn:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    except Exception:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, ours)
    check()
