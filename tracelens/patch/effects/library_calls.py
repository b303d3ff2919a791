"""A call of a library's function, as what has more meaning than its entry in the vocabulary is handed it.

In: the call. Out: the texts that are written in it, None for what is no text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from tracelens.patch.effects.dispatch import HELD, Arguments, Dispatch, Here
from tracelens.patch.effects.memory import Memory, Objects
from tracelens.patch.effects.objects import Name, Object, Thing


@dataclass(frozen=True)
class LibraryCall:
    """One call of a library's function."""

    name: Name
    given: Arguments
    here: Here
    dispatch: Dispatch

    @property
    def memory(self) -> Memory:
        return self.dispatch.memory

    def thing(self, kind: str, inside: Iterable[Object] | None = None) -> Objects:
        """A library's object that this call makes, with what it has, if it has something."""
        parts = Thing, kind, self.here.node, self.here.maker
        return frozenset({self.memory.make(*parts)}) if inside is None else self.dispatch.made(HELD, inside, *parts)


def constant(node: ast.AST, position: int) -> str | None:
    """The text of an argument by its position."""
    arguments = node.args if isinstance(node, ast.Call) else []
    value = arguments[position] if len(arguments) > position else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def keyword(node: ast.AST, name: str) -> str | None:
    """The text of an argument by its name."""
    for one in node.keywords if isinstance(node, ast.Call) else ():
        if one.arg == name and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
            return one.value.value
    return None
