"""Texts of one file that differ in nothing but whether copies to a GPU block: `x.to(device, non_blocking=True)`.

In: a text. Out: the text without these arguments, and where a place of one such text is in another. A patch asks about
several of them, and what a project does is the same for all: no library keeps the argument or calls anything for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracelens.patch.effects.memory import Memory
from tracelens.patch.effects.names import module_of
from tracelens.patch.effects.objects import Activation, Callbacks, Module
from tracelens.patch.effects.places import Span
from tracelens.patch.effects.project import parsed

_COPIES = frozenset({"to", "cuda"})
_ARGUMENT = re.compile(r"(?:, |(?<=\())non_blocking=True(?=\))")


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
    """Where the arguments of copies end."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_copy(node):
            yield from ((one.end_lineno or 0, one.end_col_offset or 0) for one in node.keywords)


def _is_copy(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COPIES


def copies_by_itself(memory: Memory, module: Module) -> bool:
    """Whether a copy in the file may be a function of the project, which can do anything with what it is handed."""
    return any(
        isinstance(called, Activation) and _is_copy(node)
        for unit, summary in memory.summaries.items()
        if not isinstance(unit, Callbacks) and module_of(unit) is module
        for node, called in summary.calls
    )
