"""The line clock of Python 3.12 and later: `sys.monitoring`, on the code objects of the user's project alone.

In: the thread that trains. Out: events in a log. A user's line costs at most `CAP` events per step; what is beyond is
switched off by the interpreter itself until the next step.

Code of libraries is left as it is. Events that begin a function are switched on in each code object of the project
(`project_code`), and what happens within it when it begins for the first time. An event for the whole interpreter
would change every code object that runs: CPython 3.12 takes joined instructions (`LOAD_FAST__LOAD_FAST`) apart in code
that it monitors, and never joins them again. The two that come with exceptions change none.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import CodeType
from typing import Any

from tracelens.capture.inside.line_log import CAP, CODE_SHIFT, ENTER, KIND_BITS, LEAVE, LINE, LineEventLog
from tracelens.capture.inside.project_code import ProjectCode
from tracelens.capture.inside.user_frames import is_users

TOOLS = (4, 3)
"""Tool numbers that no one has claimed: 0, 1, 2 and 5 belong to debuggers, coverage, profilers and optimizers."""
NAME = "tracelens"


class MonitoredLines:
    """`start`, `step` and `stop` at step boundaries, on the training thread."""

    clock = "monitoring"

    def __init__(self, log: LineEventLog, project: ProjectCode) -> None:
        self._log = log
        self._project = project
        self._thread = threading.get_ident()
        self._tool: int | None = None
        self._local: dict[int, CodeType] = {}
        """Code that has events of its own, by `id`."""

    def start(self) -> str | None:
        """Arm the clock; or say why it cannot be."""
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool = next((tool for tool in TOOLS if monitoring.get_tool(tool) is None), None)
        if self._tool is None:
            return "other tools use sys.monitoring"
        monitoring.use_tool_id(self._tool, NAME)
        for event, callback in self._callbacks().items():
            monitoring.register_callback(self._tool, event, callback)
        self._project.look_again()
        # PY_RESUME: a generator that began before the clock did.
        begins = monitoring.events.PY_START | monitoring.events.PY_RESUME
        for code in self._project.codes.values():
            self._watch(code, begins)
        return None

    def open(self) -> None:
        """Let events come, once the frames that run already are in the log."""
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        for code in self._log.codes:
            self._watch_inside(code)
        monitoring.restart_events()
        monitoring.set_events(self._tool, monitoring.events.PY_UNWIND | monitoring.events.PY_THROW)

    def step(self) -> None:
        """Every location may report again."""
        sys.monitoring.restart_events()  # type: ignore[attr-defined,unused-ignore]

    def stop(self) -> str | None:
        """Everything as it was; or why what was logged is not to be trusted."""
        tool, self._tool = self._tool, None
        if tool is None:
            return None
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        if monitoring.get_tool(tool) != NAME:
            return "another tool took the line clock's place"
        monitoring.set_events(tool, 0)
        for event in self._callbacks():
            monitoring.register_callback(tool, event, None)
        local, self._local = self._local, {}
        for code in local.values():
            monitoring.set_local_events(tool, code, 0)
        monitoring.free_tool_id(tool)
        return None

    def _watch_inside(self, code: CodeType) -> None:
        events = sys.monitoring.events  # type: ignore[attr-defined,unused-ignore]
        self._watch(code, events.LINE | events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD)

    def _watch(self, code: CodeType, events: int) -> None:
        sys.monitoring.set_local_events(self._tool, code, events)  # type: ignore[attr-defined,unused-ignore]
        self._local[id(code)] = code

    def _callbacks(self) -> dict[int, Callable[..., Any]]:
        """By event. The interpreter cannot switch off the two that come with exceptions."""
        monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        events, disable = monitoring.events, monitoring.DISABLE
        enters, leaves = self._boundary(ENTER, disable), self._boundary(LEAVE, disable)
        return {
            events.LINE: self._line(disable),
            events.PY_START: enters,
            events.PY_RESUME: enters,
            events.PY_THROW: self._boundary(ENTER, None),
            events.PY_RETURN: leaves,
            events.PY_YIELD: leaves,
            events.PY_UNWIND: self._boundary(LEAVE, None),
        }

    def _line(self, disable: Any) -> Callable[..., Any]:
        log, thread = self._log, self._thread
        index, counts, add_time, add_key = log.index, log.counts, log.times.append, log.keys.append
        clock, ident = time.perf_counter_ns, threading.get_ident

        def line(code: CodeType, number: int) -> Any:
            if ident() != thread:
                return None  # never switched off by another thread: that holds for all threads
            known = index.get(id(code))
            if known is None:
                return disable
            key = known << CODE_SHIFT | number << KIND_BITS | LINE
            count = counts.get(key, 0) + 1
            if count > CAP:
                return disable
            counts[key] = count
            add_time(clock())
            add_key(key)
            return disable if count == CAP else None

        return line

    def _boundary(self, kind: int, disable: Any) -> Callable[..., Any]:
        """A function is entered or left. `disable`: what switches the event off, None where nothing does."""
        log, thread = self._log, self._thread
        index, counts, add_time, add_key = log.index, log.counts, log.times.append, log.keys.append
        clock, ident, meet = time.perf_counter_ns, threading.get_ident, self._meet

        def boundary(code: CodeType, _offset: int, _value: object = None) -> Any:
            known = index.get(id(code))
            if known is None and not is_users(code):  # an exception comes through a library's code
                return disable
            if ident() != thread:
                return None
            if known is None:
                known = meet(code)
                if known is None:
                    return disable
            key = known << CODE_SHIFT | kind
            count = counts.get(key, 0) + 1
            if count > CAP:
                return disable
            counts[key] = count
            add_time(clock())
            add_key(key)
            return None

        return boundary

    def _meet(self, code: CodeType) -> int | None:
        """A user's function that starts for the first time; None when the log is full."""
        if self._tool is None or self._log.overflows():
            return None
        position = self._log.add_code(code)
        self._watch_inside(code)
        return position
