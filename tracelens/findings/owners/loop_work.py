"""What the host does below lines that a step runs again and again: the parts of loops over samples, boxes, parameters.

In: the host and its time. Out: `LoopWork` per line that is the outermost of those that repeat: what it calls belongs
to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.owners.host_lines import HostLines
from tracelens.findings.owners.idle_segments import BACKWARD, SLOW_NODE, Host, Segments
from tracelens.model import Location
from tracelens.trace import intervals

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class LoopWork:
    """A line that repeats: `places` are those that ran below it, each the innermost, itself among them."""

    location: Location
    places: frozenset[tuple[str, int | None]]
    everything: intervals.IntervalSet
    trains: bool = False
    """Its operations have a gradient: it is a layer of the model, or a part of a batch."""


def collect(segments: Segments, host: Host) -> tuple[LoopWork, ...]:
    """In the order in which the lines stand in their files; `segments`: all of the host's time. None where the trace
    does not tell which operations have a gradient."""
    lines, of_path = _outermost(host.lines)
    if not lines or not len(host.forward.paths):
        return ()
    path = segments.belongs
    line = of_path[path]
    backward = of_path[segments.path[np.isin(segments.kind, (BACKWARD, SLOW_NODE))]]
    training = set(np.concatenate((of_path[host.forward.paths], backward)).tolist())
    out = []
    for number, location in enumerate(lines):
        mine = line == number
        if not mine.any():
            continue
        out.append(
            LoopWork(
                location,
                frozenset(_innermost(host.lines.places[at]) for at in set(path[mine].tolist())),
                intervals.union(segments.starts[mine], segments.ends[mine]),
                number in training,
            )
        )
    return tuple(sorted(out, key=lambda each: (each.location.path, each.location.line or 0)))


def _innermost(place: tuple[Location, ...]) -> tuple[str, int | None]:
    return place[0].path, place[0].line


def _outermost(lines: HostLines) -> tuple[list[Location], Column]:
    """The outermost lines that repeat; and per path the number of the one that it is below, -1 for none. The last
    entries stand for no path."""
    number_of = {place: number for number, place in enumerate(lines.places)}
    found: dict[tuple[str, int | None], int] = {}
    out: list[Location] = []
    of_path = []
    for place in lines.places:
        depths = range(len(place) - 1, -1, -1)  # from the script's first line inwards
        repeated = (place[depth] for depth in depths if number_of.get(place[depth:]) in lines.repeated)
        first = next(repeated, None)
        at = -1 if first is None else found.setdefault((first.path, first.line), len(found))
        of_path.append(at)
        if first is not None and at == len(out):
            out.append(first)
    return out, np.array([*of_path, -1, -1], dtype=np.int64)
