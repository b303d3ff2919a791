"""How long the training thread spends at which line of the user's project, for one step or two.

In: `begin_step` and `stop` at step boundaries, on the thread that trains. Out: `document`, the plain values of
lines.json; `tracelens.trace.lines` turns them into times per line. Without torch.

Only the user's own code is looked at, so that C calls and library functions count for the line that called them.
Nothing is written per event but two integers; a location is logged `CAP` times per step at most. The clock never
synchronizes and never allocates what the garbage collector would count. Tools of others keep what they have: where
their place is taken there is no clock, and `reason` says so.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from tracelens.capture.inside.line_log import CAP, CODE_SHIFT, ENTER, KIND_BITS, LINE, LineEventLog
from tracelens.capture.inside.line_monitoring import MonitoredLines
from tracelens.capture.inside.line_tracing import TracedLines
from tracelens.capture.inside.project_code import ProjectCode
from tracelens.capture.inside.user_frames import DEEPEST, is_users

_MONITORING = sys.version_info >= (3, 12)
_TOO_MANY = "a step runs too many different lines"


class LineClock:
    """Off until the first `begin_step`; after `stop` everything is as it was before."""

    def __init__(self) -> None:
        self.reason: str | None = None
        """Why there is no log; None while there is one, or before the first step."""
        self._log = LineEventLog()
        self._project = ProjectCode()
        self._lines: MonitoredLines | TracedLines | None = None
        self._running = False
        self._about: dict[str, Any] = {}

    def prepare(self) -> None:
        """Do what takes tens of milliseconds, while nothing is timed; else `begin_step` does it."""
        if _MONITORING:
            self._project.search()

    def begin_step(self, number: int) -> None:
        """Step `number` begins now: the first of the log, or the one before ends here. `reason` says what is wrong."""
        if self._running and self._lines is not None:
            if self._log.overflows():
                self.give_up(_TOO_MANY)
                return
            self._begin_log(number, sys._getframe(1))
            self._lines.step()
        elif self.reason is None:
            self._start(number, sys._getframe(1))

    def forget_all_but_last(self) -> None:
        """Keep the last step's log alone, so that any number of steps may be looked at."""
        self._log.keep_last()

    def _start(self, number: int, frame: FrameType) -> None:
        self._log = log = LineEventLog()
        self._lines = lines = MonitoredLines(log, self._project) if _MONITORING else TracedLines(log)
        self._running = True  # also where `start` fails half-way: there is something to put back
        self.reason = lines.start()
        if self.reason is not None:
            self._running = False
            return
        unix, perf = time.time_ns(), time.perf_counter_ns()
        self._about = {"thread": threading.get_native_id(), "unix_ns": unix, "perf_ns": perf}
        self._begin_log(number, frame)
        lines.open()

    def stop(self) -> None:
        """End the last step and put everything back; may be called at any time, from any thread."""
        self._project.forget()
        if not self._running or self._lines is None:
            return
        self._running = False
        self._log.end_ns = time.perf_counter_ns()
        self.reason = self._lines.stop()
        if self.reason is None and self._log.overflows():
            self.reason = _TOO_MANY

    def give_up(self, reason: str) -> None:
        """Stop, and keep nothing."""
        self.stop()
        self.reason = self.reason or reason

    def document(self, shown: Callable[[str], str]) -> dict[str, Any] | None:
        """What was logged, None where nothing was or where it cannot be trusted. `shown` turns a path of Python into
        one of the recording."""
        if self.reason is not None or self._log.end_ns is None or self._lines is None:
            return None
        cost = self._lines.call_cost_ns if isinstance(self._lines, TracedLines) else 0
        about = {"clock": self._lines.clock, "cap": CAP, "call_cost_ns": cost, **self._about}
        return {**about, **self._log.document(shown)}

    def _begin_log(self, number: int, frame: FrameType | None) -> None:
        """Each step's log begins with the functions under way, so that it can be read by itself."""
        frames: list[FrameType] = []
        for _ in range(DEEPEST):
            if frame is None:
                break
            if is_users(frame.f_code):
                frames.append(frame)
            frame = frame.f_back
        log, now = self._log, time.perf_counter_ns()
        log.begin_step(number, now)
        for under_way in reversed(frames):
            code = under_way.f_code
            position = log.index.get(id(code))
            position = log.add_code(code) if position is None else position
            for key in (ENTER, (under_way.f_lineno or code.co_firstlineno) << KIND_BITS | LINE):
                log.times.append(now)
                log.keys.append(position << CODE_SHIFT | key)
