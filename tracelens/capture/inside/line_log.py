"""The log of the line clock: two columns of integers, so that logging makes no object that the collector would count.

In: events of the training thread (a line begins, a function is entered or left) with their times. Out: `document`, the
plain values that lines.json holds. Without torch.

A key is `code << 22 | line << 2 | kind`, where `code` is the position of a code object in `codes`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from types import CodeType
from typing import Any

LINE, ENTER, LEAVE, NOTE = range(4)
"""Kinds of an event. NOTE has no code: its `code` is `SILENCED` or `UNLOGGED`, its `line` a number."""
SILENCED, UNLOGGED = 0, 1
"""SILENCED: the frame on top reports no lines from here on. UNLOGGED: so many calls made the interval before longer."""
KIND_BITS, CODE_SHIFT = 2, 22
MOST_NUMBER = (1 << (CODE_SHIFT - KIND_BITS)) - 1

CAP = 50
"""Events per location and step: from then on its times are known well enough, and a hot line would cost 25-fold."""
MOST_EVENTS = 200_000
"""Per step; a project that runs 4,000 different lines per step, each 50 times."""


class LineEventLog:
    """Events of one thread over a few steps. Times are `time.perf_counter_ns`."""

    def __init__(self) -> None:
        self.times = array("q")
        self.keys = array("q")
        self.codes: list[CodeType] = []
        self.index: dict[int, int] = {}
        """Position in `codes` by `id`: hashing a code object costs more. `codes` keeps them alive."""
        self.counts: dict[int, int] = {}
        """Events per key in this step."""
        self.steps: list[tuple[int, int, int]] = []
        """(step number, its start, position of its first event)."""
        self.end_ns: int | None = None

    def add_code(self, code: CodeType) -> int:
        """The position of a code object that is not in `index` yet."""
        position = len(self.codes)
        self.codes.append(code)
        self.index[id(code)] = position
        return position

    def begin_step(self, number: int, now: int) -> None:
        """Events from here on belong to step `number`; every location may be logged `CAP` times again."""
        self.counts.clear()
        self.steps.append((number, now, len(self.times)))

    def keep_last(self) -> None:
        """Forget the steps before the last one, in place: the clock holds on to the columns."""
        if not self.steps:
            return
        number, start, first = self.steps[-1]
        del self.times[:first]
        del self.keys[:first]
        self.steps[:] = [(number, start, 0)]

    def overflows(self) -> bool:
        """Whether the step under way has more events than a log may hold."""
        return len(self.times) - (self.steps[-1][2] if self.steps else 0) > MOST_EVENTS

    def document(self, shown: Callable[[str], str]) -> dict[str, Any]:
        """As lines.json has it: times as differences, keys as positions in a table. `shown` turns a path of Python
        into one of the recording."""
        table: dict[int, int] = {}
        events = [table.setdefault(key, len(table)) for key in self.keys]
        first = self.times[0] if self.times else 0
        differences = [later - earlier for earlier, later in zip(self.times, self.times[1:])]  # noqa: B905 -- Python 3.10
        return {
            "codes": [[shown(code.co_filename), code.co_firstlineno, code.co_name] for code in self.codes],
            "places": [[key >> CODE_SHIFT, (key >> KIND_BITS) & MOST_NUMBER, key & NOTE] for key in table],
            "steps": [[number, start, position] for number, start, position in self.steps],
            "end_ns": self.end_ns,
            "first_ns": first,
            "differences_ns": differences,
            "events": events,
        }
