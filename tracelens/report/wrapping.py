"""Sentences in lines of a terminal: a number stays beside its unit, a command is never broken.

In: a sentence and how many columns there are. Out: lines. rich breaks at any white space, also at one that must not
be broken, and inside of a path that is longer than a line, so that it cannot be copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

_UNITS = "%|ms|µs|ns|s|h|min|MB|GB|MiB|GiB"
_KEPT = re.compile(rf"(?<=\d) (?=(?:{_UNITS})(?!\w))|(?<=[→]) (?=[\d+−])|(?<=\S) (?=→)")
_RANGE = re.compile(r"(?<=\d) to (?=[+−]?\d)")
"""Blanks at which no line ends: between a number and its unit, around what stands from one number to another."""
_HELD = "\ue000"
"""Stands for such a blank while lines are made: of the private use area, which no text that is shown has."""


def wrapped(text: str, width: int) -> list[str]:
    """The sentence in lines of at most `width` columns; only a word that is longer than a line is broken."""
    return [line for part in text.split("\n") for line in _lines(_held(part), max(width, 1))]


def with_command(text: str, command: str, width: int, indent: int = 2) -> list[str]:
    """The same for a sentence that ends with a command, which gets a line of its own where it does not fit: whole,
    whatever the width, because it is there to be copied."""
    before, found, after = text.rpartition(command) if command else (text, "", "")
    if not found or after.strip(" .") or (cell_len(text) <= width and "\n" not in text):
        return wrapped(text, width)
    return [*wrapped(before.rstrip(), width), " " * indent + command]


def _held(text: str) -> str:
    return _KEPT.sub(_HELD, _RANGE.sub(f"{_HELD}to{_HELD}", text))


def _lines(text: str, width: int) -> Iterator[str]:
    margin = text[: len(text) - len(text.lstrip(" "))]
    line = margin
    for word in text.split():
        more = word if line == margin else f" {word}"
        if cell_len(line + more) <= width:
            line += more
            continue
        if line != margin:
            yield _shown(line)
        *full, rest = chop_cells(word, max(width - len(margin), 1)) or [word]
        yield from (_shown(margin + piece) for piece in full)
        line = margin + rest
    yield _shown(line)


def _shown(line: str) -> str:
    return line.replace(_HELD, " ")
