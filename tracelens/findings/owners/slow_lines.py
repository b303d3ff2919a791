"""At which lines a slow step spends what an ordinary step does not take.

In: steps as times per lines under way (outermost first), some slow and some ordinary. Out: lines with their share of
the difference. Pure.

The line that is named is the statement that ordinary steps do not run, however deep what it calls goes: `evaluate()` in
the loop, and not the model's last layer. Where all lines run in every step, and only take longer, it is the innermost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracelens.model import Location

Under = tuple[Location, ...]
"""Lines under way, the outermost first; of a sample of the stack the innermost alone."""
Spent = Mapping[Under, float]
"""Time per lines under way, of one step."""

LEAST_PART = 0.1
"""Of what a slow step takes longer: a line below it is not named."""
MOST_LINES = 3
MOSTLY = 0.5
"""Of what a slow step takes longer: then the statements that only slow steps run are the reason."""


@dataclass(frozen=True)
class SlowLine:
    """A line with its part of what slow steps take longer, 0 to 1."""

    location: Location
    part: float
    alone: bool
    """Whether no ordinary step was seen at it."""
    function: str | None = None
    """The project's function that the line calls and that takes most of it."""


def lines(slow: Sequence[Spent], ordinary: Sequence[Spent]) -> tuple[SlowLine, ...]:
    """The lines that hold most of the difference, the largest first; nothing where one of both was not seen."""
    if not slow or not ordinary:
        return ()
    usual = _mean(ordinary)
    longer = {under: ns - usual.get(under, 0.0) for under, ns in _mean(slow).items()}
    total = sum(_mean(slow).values()) - sum(usual.values())
    if total <= 0:
        return ()
    known = {_key(place) for under in usual for place in under}
    parts: defaultdict[Location, float] = defaultdict(float)
    inside: defaultdict[Location, defaultdict[str | None, float]] = defaultdict(lambda: defaultdict(float))
    for under, ns in longer.items():
        if ns > 0 and under:
            at = _statement(under, known)
            parts[under[at]] += ns
            inside[under[at]][under[at + 1].function if at + 1 < len(under) else None] += ns
    whole = max(total, sum(parts.values()))
    named = [
        SlowLine(place, ns / whole, _key(place) not in known, _longest(inside[place])) for place, ns in parts.items()
    ]
    if sum(line.part for line in named if line.alone) >= MOSTLY:  # what else took longer is how steps differ anyway
        named = [line for line in named if line.alone]
    large = [line for line in named if line.part >= LEAST_PART]
    return tuple(sorted(large, key=lambda line: -line.part)[:MOST_LINES])


def _statement(under: Under, known: set[tuple[str, int | None]]) -> int:
    """The position of the outermost line that no ordinary step runs, else of the innermost one."""
    return next((at for at, place in enumerate(under) if _key(place) not in known), len(under) - 1)


def _longest(inside: Mapping[str | None, float]) -> str | None:
    """The function that takes most of a line, if one does."""
    function = max(inside, key=inside.__getitem__)
    named = function is not None and not function.startswith("<")  # of a lambda the line says more
    return function if named and inside[function] >= MOSTLY * sum(inside.values()) else None


def _key(place: Location) -> tuple[str, int | None]:
    return place.path, place.line


def _mean(steps: Iterable[Spent]) -> dict[Under, float]:
    every = list(steps)
    total: defaultdict[Under, float] = defaultdict(float)
    for spent in every:
        for under, ns in spent.items():
            total[under] += ns / len(every)
    return dict(total)
