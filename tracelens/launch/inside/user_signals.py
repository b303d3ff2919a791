"""Signal handlers of the script while our code runs: deferred, or told apart from our own errors.

In: code of ours that takes long, or an error that it caught. Out: handlers that run afterwards; whether an error was
raised by a handler. A handler may run between any two instructions on the main thread. The usual way to limit a
training's time is an alarm whose handler raises TimeoutError: it must end the training, not our recording.
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

RESEND_SECONDS = 0.01
"""Delay before a deferred signal is sent again; our code has returned to the script by then."""


@contextlib.contextmanager
def deferred(but: Callable[..., Any]) -> Iterator[None]:
    """Defer the signals that the script handles to the end of the block, each once.

    Not deferred: Ctrl-C, and signals whose handler is `but`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run on the main thread only
        return
    arrived: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.add(number)

    before = {number: handler for number, handler in _handlers().items() if handler != but and _may_raise(handler)}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) == note:
                signal.signal(number, handler)
        if arrived:
            _thread.start_new_thread(_send_again, (arrived,))


def raised_by_handler(error: BaseException) -> bool:
    """Whether a signal handler of the script raised this error."""
    codes = {_code(handler) for handler in _handlers().values()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _handlers() -> dict[int, Callable[..., Any]]:
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {number: handler for number, handler in handlers.items() if callable(handler)}


def _may_raise(handler: Callable[..., Any]) -> bool:
    """Whether the handler has to be deferred: not asyncio's, which never raises, nor Ctrl-C's, which we never delay."""
    return handler is not signal.default_int_handler and getattr(handler, "__module__", "") != "asyncio.unix_events"


def _code(handler: Any) -> Any:
    function = getattr(handler, "func", handler)  # functools.partial
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def _send_again(numbers: set[int]) -> None:
    time.sleep(RESEND_SECONDS)
    for number in numbers:
        os.kill(os.getpid(), number)
