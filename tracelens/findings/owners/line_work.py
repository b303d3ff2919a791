"""What each line of the project does on the host in a step, whether the GPU is idle meanwhile or not.

In: a Timeline and its host. Out: `LineWork` per line, the longest first; none where no line is known. It is what the
replay takes out of a step to tell what the step would be without the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners.host_lines import HostLines
from tracelens.findings.owners.idle_segments import (
    ALLOCATOR,
    COLLECTOR,
    HOST_LINE,
    SLOW_NODE,
    Host,
    Segments,
)
from tracelens.findings.owners.sums import heaviest
from tracelens.model import Location
from tracelens.trace import intervals

Column = npt.NDArray[Any]

WORK = (HOST_LINE, COLLECTOR, ALLOCATOR, SLOW_NODE)
"""Neither launching nor waiting."""


@dataclass(frozen=True)
class LineWork:
    """One line: `work_ns` per step and `work` are what it does but launching and waiting; `everything` holds its
    launches and waits, too, and the backward passes of its operations."""

    locations: tuple[Location, ...]
    callee: str | None
    work_ns: int
    work: intervals.IntervalSet
    everything: intervals.IntervalSet
    launches_ns: int = 0
    """Host time per step that is not `work`: of launching and waiting."""
    loops: bool = False
    """It launches the same for one tensor after the other."""


def lines_of(lines: HostLines) -> tuple[Column, tuple[Location, ...]]:
    """The number of the innermost line of each path, and the lines. The last entries stand for no path: -1.

    A comprehension is a function of its own at the line of the function that holds it: they are one line."""
    number: dict[tuple[str, int | None], int] = {}
    places: list[Location] = []
    of_path = []
    for path in lines.places:
        at = number.setdefault((path[0].path, path[0].line), len(number)) if path else -1
        of_path.append(at)
        if at == len(places):
            places.append(path[0])
    return np.array([*of_path, -1, -1], dtype=np.int64), tuple(places)


def collect(segments: Segments, kept: KeptSteps, host: Host, loops: Column) -> tuple[LineWork, ...]:
    """The work of all lines. `segments`: all of the host's time. `loops`: the numbers of those that take tensors one
    after the other."""
    if not host.lines.places:
        return ()
    of_path, lines = lines_of(host.lines)
    path = segments.belongs
    line = of_path[path]
    works = np.isin(segments.kind, WORK) & (line >= 0)
    total = np.bincount(line[works], weights=segments.lengths[works], minlength=len(lines)).astype(np.int64)
    paths = heaviest(line[works], path[works], segments.lengths[works], len(lines))
    names = heaviest(line[works], segments.name[works], segments.lengths[works], len(lines))
    caused = _consequences(segments, line, len(lines))
    out = []
    for number in np.argsort(-total, kind="stable").tolist():
        mine = line == number
        work, everything = mine & works, mine
        if caused is not None and caused[0] == number:
            work, everything = work | caused[1], everything | caused[1]
        out.append(
            LineWork(
                locations=host.lines.places[paths[number][0][0]] if paths[number] else (lines[number],),
                callee=segments.names[names[number][0][0]] if names[number] else None,
                work_ns=kept.per_step(int(segments.lengths[work].sum())),
                work=intervals.union(segments.starts[work], segments.ends[work]),
                everything=intervals.union(segments.starts[everything], segments.ends[everything]),
                launches_ns=kept.per_step(int(segments.lengths[everything & ~work].sum())),
                loops=bool(np.isin(number, loops)),
            )
        )
    return tuple(sorted(out, key=lambda each: -each.work_ns))


def _consequences(segments: Segments, line: Column, count: int) -> tuple[int, Column] | None:
    """A line that gives memory back to the driver in each step is why later operations have to ask for it again: their
    calls would go with it. Returns the line and those segments."""
    named = [np.array([word in name for name in segments.names] + [False]) for word in ("Malloc", "Free")]
    asks, frees = (which[segments.name] & (segments.kind == ALLOCATOR) for which in named)
    freeing = frees & (line >= 0)
    if not freeing.any():
        return None
    freed = np.bincount(line[freeing], weights=segments.lengths[freeing], minlength=count)
    return int(freed.argmax()), asks
