"""What the line clock wrote down: which line of the user's project the training thread was at, event by event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tracelens.model.source import Location

LineEventKind = Literal[0, 1, 2, 3]


@dataclass(frozen=True, slots=True)
class LinePlace:
    """What an event is about. `kind`: 0 a line begins, 1 a function is entered, 2 it is left, 3 a note of the clock.

    Of a note, `code` 0 says that the function on top reports no lines from here on, 1 that the interval before paid
    for `line` calls which were not logged.
    """

    code: int
    """Position in `LineLog.codes`."""
    line: int
    kind: LineEventKind


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One step of the log: its events are those from position `first` up to the next step's."""

    number: int
    start_unix_ns: int
    end_unix_ns: int
    first: int


@dataclass(frozen=True, slots=True)
class LineLog:
    """The events of one thread over the attributed steps; `events` are positions in `places`.

    A place is logged `cap` times per step at most, and then no more before the next step.
    """

    thread: int
    """Native thread id, as in the trace's `tid`."""
    clock: Literal["monitoring", "settrace"]
    cap: int
    call_cost_ns: int
    """What a call that was not logged cost all the same."""
    codes: tuple[Location, ...]
    """Functions: path, line of the `def`, name."""
    places: tuple[LinePlace, ...]
    steps: tuple[LoggedStep, ...]
    times_unix_ns: Sequence[int]
    events: Sequence[int]

    def location(self, line: tuple[int, int]) -> Location:
        """Of a function, by its position in `codes`, the line of that number."""
        code, number = line
        return Location(self.codes[code].path, number, self.codes[code].function)


@dataclass(frozen=True, slots=True)
class GarbageCollection:
    """One run of Python's collector that took a while. `location`: the user's line at which it ran, None outside."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    generation: int
    location: Location | None
