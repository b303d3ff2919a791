"""What a signal handler of the script's raises is the script's, also where it strikes in the midst of our code.

In: code of ours that takes long, or an error that it met. Out: handlers run after it; whether an error is a handler's.
Apart from the hooks because a handler may run between any two instructions on the main thread: the usual way to limit
a training's time is an alarm whose handler raises TimeoutError, which must end the training and not our recording.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

AFTERWARDS_SECONDS = 0.01
"""By then we have returned to the script."""


@contextlib.contextmanager
def held(but: Callable[..., Any]) -> Iterator[None]:
    """Signals that the script handles come when this has ended, each once; Ctrl-C, and the handler `but`, at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler ever runs here
        return
    came: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        came.add(number)

    before = {number: handler for number, handler in _handlers().items() if handler != but and _may_raise(handler)}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) == note:
                signal.signal(number, handler)
        if came:
            _thread.start_new_thread(_send_again, (came,))


def raised(error: BaseException) -> bool:
    """It comes from a handler of the script's."""
    codes = {_code(handler) for handler in _handlers().values()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _handlers() -> dict[int, Callable[..., Any]]:
    found = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {number: handler for number, handler in found.items() if callable(handler)}


def _may_raise(handler: Callable[..., Any]) -> bool:
    """asyncio's does not, and is told of a signal before its handler is; KeyboardInterrupt is never swallowed."""
    return handler is not signal.default_int_handler and getattr(handler, "__module__", "") != "asyncio.unix_events"


def _code(handler: Any) -> Any:
    function = getattr(handler, "func", handler)  # functools.partial
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def _send_again(numbers: set[int]) -> None:
    time.sleep(AFTERWARDS_SECONDS)
    for number in numbers:
        os.kill(os.getpid(), number)
