"""Which functions of the project run where a piece of a loop does, where its objects are hardly told apart.

In: an analysis, the loop's function in all the ways in which it is called, and the loop. Out: of functions that are
found by their names, those that the analysis calls there as well. Both say too much, so that what runs is in both.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.deeds import is_of_anything
from tracelens.patch.effects.memory import ELSEWHERE, MANY, Memory, Unit
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import UNKNOWN, Activation, Callbacks, Effect, Module
from tracelens.patch.effects.places import Loop, path_to
from tracelens.patch.effects.scopes import Function as FunctionNode


class Running:
    """Asks about one loop. What nobody can tell apart, or tell at all, may run whatever has the name."""

    def __init__(self, memory: Memory, units: Iterable[Module | Activation], loop: Loop) -> None:
        self.memory, self.units, self.loop = memory, tuple(units), loop
        self._known: dict[ast.AST, frozenset[ast.AST] | None] = {}

    def among(self, functions: Iterable[FunctionNode], pieces: Iterable[ast.AST]) -> tuple[FunctionNode, ...]:
        """Those of the functions that run where pieces of the loop do; the loop itself stands for all that runs in it
        and beside it."""
        named = tuple(functions)
        found = [self._of(piece) for piece in pieces] if named else []
        if any(one is None for one in found):
            return named
        ran = frozenset[ast.AST]().union(*(one for one in found if one is not None))
        return tuple(one for one in named if one in ran or getattr(one, "name", "") == "__del__")  # at any time

    def _of(self, piece: ast.AST) -> frozenset[ast.AST] | None:
        if piece not in self._known:
            self._known[piece] = self._followed(piece) if self.units else None
        return self._known[piece]

    def _followed(self, piece: ast.AST) -> frozenset[ast.AST] | None:
        """The functions that run where a piece does; None where that may be any."""
        waiting: deque[Unit] = deque()
        for node in self._nodes(piece):
            if node in self._of_many:
                return None
            called = self._calls.get(node, ())
            certain = [one for one in called if not is_of_anything(one, self.memory)]
            if called and not certain:
                return None
            waiting += certain
        if piece is self.loop:
            waiting.append(self.memory.make(Callbacks, ELSEWHERE, "later"))
        seen: set[Unit] = set(waiting)
        while waiting:
            unit = waiting.popleft()
            summary = self.memory.summaries[unit]
            if any(_calls_many(effect) for _, effect in summary.effects):
                return None
            new = {one for _, one in summary.calls if not is_of_anything(one, self.memory)} - seen
            seen |= new
            waiting += new
        return frozenset(code_of(one) for one in seen if isinstance(one, Activation))

    def _nodes(self, piece: ast.AST) -> Iterable[ast.AST]:
        """The nodes of a piece, and the statement that it is the head of: a `with` block enters its contexts itself."""
        around = [one for one in path_to(self.loop, piece) if isinstance(one, ast.stmt)]
        return dict.fromkeys((*syntax.walk(piece), *around[-1:]))

    @cached_property
    def _calls(self) -> dict[ast.AST, list[Unit]]:
        """By node of the loop's function, what it calls."""
        out: dict[ast.AST, list[Unit]] = {}
        for summary in (self.memory.summaries[unit] for unit in self.units):
            for node, called in summary.calls:
                out.setdefault(node, []).append(called)
        return out

    @cached_property
    def _of_many(self) -> frozenset[ast.AST]:
        """The nodes of the loop's function that call one of very many things."""
        effects = (pair for unit in self.units for pair in self.memory.summaries[unit].effects)
        return frozenset(node for node, effect in effects if _calls_many(effect))


def _calls_many(effect: Effect) -> bool:
    return effect.kind == UNKNOWN and effect.target is MANY
