"""The file of the line clock in a Run folder (lines.json), read into a `LineLog`.

In: the plain values of the file. Out: the log, with times on the Unix clock. Apart from `run` because the columns are
packed: times as differences, events as positions in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from tracelens.errors import InputError
from tracelens.jsonfile import Shape
from tracelens.messages import say
from tracelens.model import LineLog, LinePlace, Location, LoggedStep

SHAPE: Shape = {
    "clock": str,
    "cap": int,
    "call_cost_ns": int,
    "thread": int,
    "unix_ns": int,
    "perf_ns": int,
    "first_ns": int,
    "end_ns": int,
    "codes": [list],
    "places": [[int]],
    "steps": [[int]],
    "differences_ns": [int],
    "events": [int],
}


def parse(document: Mapping[str, Any], name: str) -> LineLog:
    """The log; raises `InputError` where the file does not hold one."""
    try:
        return _log(document)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            say("{name} is damaged: {error!r}", name=name, error=error),
            hint=say("record again: tracelens profile SCRIPT"),
        ) from error


def _log(document: Mapping[str, Any]) -> LineLog:
    shift = int(document["unix_ns"]) - int(document["perf_ns"])
    events = [int(event) for event in document["events"]]
    first = int(document["first_ns"]) + shift
    times = list(accumulate((int(ns) for ns in document["differences_ns"]), initial=first))[: len(events)]
    places = tuple(LinePlace(int(code), int(line), _kind(kind)) for code, line, kind in document["places"])
    codes = tuple(Location(str(path), int(line), str(function)) for path, line, function in document["codes"])
    if len(times) != len(events) or (events and not 0 <= min(events) <= max(events) < len(places)):
        raise ValueError("its columns do not belong together")
    if any(place.kind < 3 and not 0 <= place.code < len(codes) for place in places):
        raise ValueError("an event is about a function that is not listed")
    return LineLog(
        thread=int(document["thread"]),
        clock=_clock(document["clock"]),
        cap=int(document["cap"]),
        call_cost_ns=int(document["call_cost_ns"]),
        codes=codes,
        places=places,
        steps=_steps(document["steps"], int(document["end_ns"]) + shift, shift),
        times_unix_ns=times,
        events=events,
    )


def _steps(rows: Any, end: int, shift: int) -> tuple[LoggedStep, ...]:
    starts = [int(start) + shift for _, start, _ in rows]
    ends = [*starts[1:], end]
    return tuple(
        LoggedStep(int(number), start, until, int(first))
        for (number, _, first), start, until in zip(rows, starts, ends, strict=True)
    )


def _kind(value: Any) -> Any:
    if value not in (0, 1, 2, 3):
        raise ValueError(f"there is no event of kind {value!r}")
    return value


def _clock(value: Any) -> Any:
    if value not in ("monitoring", "settrace"):
        raise ValueError(f"there is no clock {value!r}")
    return value
