"""The lines of source around a location, with the expression that waits marked.

In: the text of a file, a line, the name of the call. Out: an Excerpt; text draws it with a caret, HTML with a mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tracelens.model import Location

CONTEXT = 2
"""Lines before and after: enough to recognize the place, short enough for ten of them on a page."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`lines` are (number, text); [`start`, `end`) are the columns to mark on the line `number`."""

    lines: tuple[tuple[int, str], ...]
    number: int
    start: int
    end: int


def around(sources: Mapping[str, str], location: Location | None, call: str | None) -> Excerpt | None:
    """None where the source is not at hand or the line does not exist in it."""
    if location is None or location.line is None or location.path not in sources:
        return None
    lines = sources[location.path].splitlines()
    if not 1 <= location.line <= len(lines):
        return None
    first, last = max(1, location.line - CONTEXT), min(len(lines), location.line + CONTEXT)
    numbered = tuple((n, lines[n - 1].expandtabs(4)) for n in range(first, last + 1))
    start, end = _span(lines[location.line - 1].expandtabs(4), call)
    return Excerpt(numbered, location.line, start, end)


def _span(line: str, call: str | None) -> tuple[int, int]:
    """Columns of the call in the line; the whole statement where the name does not occur."""
    name = (call or "").rsplit(".", 1)[-1]
    match = re.search(rf"[\w.\[\]'\"]*\b{re.escape(name)}\s*\(", line) if name else None
    if match is None:
        stripped = line.split("#", 1)[0].rstrip() or line.rstrip()
        return len(line) - len(line.lstrip()), len(stripped)
    return match.start(), _closing(line, match.end() - 1)


def _closing(line: str, opening: int) -> int:
    depth = 0
    for column in range(opening, len(line)):
        depth += {"(": 1, ")": -1}.get(line[column], 0)
        if depth == 0:
            return column + 1
    return len(line.rstrip())
