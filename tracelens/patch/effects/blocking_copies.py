"""Texts of one file that differ in nothing but whether copies to a GPU block.

In: a text. Out: the text without `x.to(device, non_blocking=True)` and `DataLoader(data, pin_memory=True)`, and where a
place of one such text is in another. A patch asks about several of them, and what a project does is the same for all:
no library keeps the arguments or calls anything of the project for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracelens.patch.effects import syntax
from tracelens.patch.effects.memory import Memory
from tracelens.patch.effects.names import module_of
from tracelens.patch.effects.objects import Activation, Callbacks, Module
from tracelens.patch.effects.places import Span, last_name
from tracelens.patch.effects.project import parsed

_ARGUMENTS = {"to": "non_blocking", "cuda": "non_blocking", "DataLoader": "pin_memory"}
"""The argument, by the name of what is called."""
_ARGUMENT = re.compile(r"(?:, |(?<=\())(?:non_blocking=True|pin_memory=(?:True|torch\.cuda\.is_available\(\)))(?=\))")


@dataclass(frozen=True)
class BlockingText:
    """A text without the arguments. `cuts`: by line, the column in bytes and the length of each that was taken out."""

    text: str
    cuts: Mapping[int, tuple[tuple[int, int], ...]]

    def place_in(self, other: BlockingText, place: Span) -> Span:
        """Where in the other's text that is which is at a place of this one's."""
        first, last = (
            other._with(line, self._without(line, column))
            for line, column in ((place.line, place.column), (place.end_line, place.end_column))
        )
        return Span(place.line, first, place.end_line, last)

    def _without(self, line: int, column: int) -> int:
        return column - sum(max(0, min(column - at, length)) for at, length in self.cuts.get(line, ()))

    def _with(self, line: int, column: int) -> int:
        for at, length in self.cuts.get(line, ()):
            column += length if column > at else 0
        return column


@lru_cache(maxsize=8)
def blocking(text: str) -> BlockingText:
    """The text without the arguments; with all of them where one may be something else, such as a part of a string."""
    found = list(_ARGUMENT.finditer(text))
    tree = parsed(text) if found else None
    lines = text.splitlines(keepends=True)
    cuts: dict[int, tuple[tuple[int, int], ...]] = {}
    for match in found:
        start = text.rfind("\n", 0, match.start()) + 1
        line = text.count("\n", 0, start) + 1
        at = len(text[start : match.start()].encode())
        cuts[line] = (*cuts.get(line, ()), (at, len(match[0])))
    ends = {(line, at + length) for line, several in cuts.items() for at, length in several}
    if tree is None or len(lines) != text.count("\n") + (not text.endswith("\n")) or not ends <= set(_ends(tree)):
        return BlockingText(text, {})
    return BlockingText(_ARGUMENT.sub("", text), cuts)


def _ends(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Where such arguments end."""
    for call in (node for node in syntax.walk(tree) if isinstance(node, ast.Call)):
        name = _ARGUMENTS.get(last_name(call.func))
        yield from ((one.end_lineno or 0, one.end_col_offset or 0) for one in call.keywords if one.arg == name)


def is_handed_to_project(memory: Memory, module: Module) -> bool:
    """Whether what takes such an argument in the file may be a function of the project, which can do anything then."""
    return any(
        isinstance(called, Activation) and isinstance(node, ast.Call) and last_name(node.func) in _ARGUMENTS
        for unit, summary in memory.summaries.items()
        if not isinstance(unit, Callbacks) and module_of(unit) is module
        for node, called in summary.calls
    )
