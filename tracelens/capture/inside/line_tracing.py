"""The line clock of Python 3.11 and before: `sys.settrace` on the thread that trains, for the user's files alone.

In: the thread that trains. Out: events in a log. The interpreter cannot switch single locations off, so a frame
that has reported a line `CAP` times is silenced as a whole until it calls something from another line; what the
interpreter reports nevertheless (each call of a Python function) is counted, and `call_cost_ns` says what one costs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from tracelens.capture.inside.line_log import (
    CAP,
    CODE_SHIFT,
    ENTER,
    KIND_BITS,
    LEAVE,
    LINE,
    MOST_NUMBER,
    NOTE,
    SILENCED,
    UNLOGGED,
    LineEventLog,
)
from tracelens.capture.inside.user_frames import DEEPEST, is_users

_SILENCED = SILENCED << CODE_SHIFT | NOTE
_CALIBRATION_CALLS = 300


class TracedLines:
    """`start`, `step` and `stop` at step boundaries, on the training thread."""

    clock = "settrace"

    def __init__(self, log: LineEventLog) -> None:
        self._log = log
        self._silent: dict[int, int] = {}
        """Frames (by `id`, so that none lives longer for it) that report no lines, and the line that was too much."""
        self._library: set[str] = set()
        """Files of others, by name."""
        self._over: set[int] = set()
        """Functions (by `id` of their code) that were entered `CAP` times in this step."""
        self._unlogged = [0]
        """Calls that were not logged since the last event; one from a silenced frame counts `_silent_price` times."""
        self._silent_price = 1
        self._active = [False]
        self._call = self._calling()
        self.call_cost_ns = 0

    def start(self) -> str | None:
        """Arm the clock; or say why it cannot be."""
        if sys.gettrace() is not None:
            return "a debugger or a coverage tool traces the script"
        self._active[0] = True
        self._calibrate()
        return None

    def open(self) -> None:
        """Let events come, once the frames that run already are in the log."""
        sys.settrace(self._call)
        for frame in self._under_way():
            frame.f_trace = self._local

    def step(self) -> None:
        """Every location may report again."""
        self._silent.clear()
        self._over.clear()
        for frame in self._under_way():
            frame.f_trace_lines = True

    def stop(self) -> str | None:
        """Everything as it was; or why what was logged is not to be trusted."""
        active, self._active[0] = self._active[0], False
        if not active:
            return None
        if sys.gettrace() is not self._call:
            return "the script or another tool set a trace function of its own"
        sys.settrace(None)
        for frame in self._under_way():
            if frame.f_trace == self._local:
                frame.f_trace, frame.f_trace_lines = None, True
        return None

    def _under_way(self) -> Iterator[FrameType]:
        """Frames of the user's functions on this thread."""
        frame: FrameType | None = sys._getframe(1)
        for _ in range(DEEPEST):
            if frame is None:
                return
            if id(frame.f_code) in self._log.index:
                yield frame
            frame = frame.f_back

    def _calling(self) -> Callable[..., Any]:
        """What runs for every Python function that is called, torch's own included: as little as can be."""
        silent, library, over, unlogged = self._silent, self._library, self._over, self._unlogged
        index, speak_again, enter, active = self._log.index, self._speak_again, self._enter, self._active

        def call(frame: FrameType, _event: str, _argument: Any) -> Any:
            if not active[0]:  # another thread stopped the clock, and only this one can take the function away
                sys.settrace(None)
                return None
            if silent:
                caller = frame.f_back
                hot = silent.get(id(caller))
                if hot is not None:
                    unlogged[0] += self._silent_price - 1
                    if caller is not None and abs(caller.f_lineno - hot) > 1:
                        speak_again(caller)
            code = frame.f_code
            if code.co_filename in library or id(code) in over:
                unlogged[0] += 1
                return None
            return enter(frame, code, index.get(id(code)))

        return call

    def _enter(self, frame: FrameType, code: CodeType, known: int | None) -> Any:
        """A function of the user's is called, or one whose file is met for the first time."""
        if known is None:
            known = self._meet(code)
        if known is None:
            return None
        if not self._add(known << CODE_SHIFT | ENTER):
            self._over.add(id(code))
            return None
        if not frame.f_trace_lines and id(frame) not in self._silent:
            frame.f_trace_lines = True  # a generator that was silenced in a step before
        return self._local

    def _local(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not self._active[0]:
            frame.f_trace = None
            return None
        known = self._log.index.get(id(frame.f_code))
        if known is None:
            return None
        if event == "line":
            line = frame.f_lineno
            key = known << CODE_SHIFT | line << KIND_BITS | LINE
            if not self._add(key) or self._log.counts[key] >= CAP:
                self._silence(frame, line)
        elif event == "return":
            self._silent.pop(id(frame), None)
            self._add(known << CODE_SHIFT | LEAVE)
        return self._local

    def _add(self, key: int) -> bool:
        """Log one event; False beyond the cap."""
        log, unlogged = self._log, self._unlogged
        count = log.counts.get(key, 0) + 1
        if count > CAP:
            unlogged[0] += 1
            return False
        log.counts[key] = count
        now = time.perf_counter_ns()
        if unlogged[0]:
            log.times.append(now)
            log.keys.append(UNLOGGED << CODE_SHIFT | min(unlogged[0], MOST_NUMBER) << KIND_BITS | NOTE)
            unlogged[0] = 0
        log.times.append(now)
        log.keys.append(key)
        return True

    def _silence(self, frame: FrameType, line: int) -> None:
        frame.f_trace_lines = False
        self._silent[id(frame)] = line
        self._log.times.append(time.perf_counter_ns())
        self._log.keys.append(_SILENCED)

    def _speak_again(self, frame: FrameType) -> None:
        """A silenced frame that calls from another line than the hot one (or its neighbor) has left its loop."""
        known = self._log.index.get(id(frame.f_code))
        if known is None or not self._add(known << CODE_SHIFT | frame.f_lineno << KIND_BITS | LINE):
            return
        del self._silent[id(frame)]
        frame.f_trace_lines = True

    def _meet(self, code: CodeType) -> int | None:
        """A function that is called for the first time; None for a library's, and when the log is full."""
        if not is_users(code):
            self._library.add(code.co_filename)
            self._unlogged[0] += 1
            return None
        return None if self._log.overflows() else self._log.add_code(code)

    def _calibrate(self) -> None:
        """What one call costs more while the trace function is installed, and how many times that from a frame that is
        silenced."""
        self._silent_price = 1
        plain = min(_calls(), _calls())
        sys.settrace(self._call)
        try:
            traced = min(_calls(), _calls())
            silenced = min(_calls(self._silent), _calls(self._silent))
        finally:
            sys.settrace(None)
            self._silent.clear()
        self.call_cost_ns = max(0, traced - plain) // _CALIBRATION_CALLS
        self._silent_price = max(1, round((silenced - plain) / max(1, traced - plain)))
        self._unlogged[0] = 0


def _calls(silent: dict[int, int] | None = None) -> int:
    """How long so many calls of a function take; from a frame in `silent`, if that is given."""

    def called() -> None:
        pass

    if silent is not None:
        frame = sys._getframe()
        silent[id(frame)] = frame.f_lineno + 3
    start = time.perf_counter_ns()
    for _ in range(_CALIBRATION_CALLS):
        called()
    return time.perf_counter_ns() - start
