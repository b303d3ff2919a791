"""The parts of a piece of code, as Python's own parser made them, told faster than by `ast`.

In: a node. Out: its parts, directly below it (`children`) or all (`walk`), in the order in which `ast` has them but
without what says whether a name is read or stored (`Load`): those have no place, and all names share them. Nobody
changes a tree of the parser, so that the walks through files, functions and loops, which many ask for, are kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

_BLOCKS = frozenset({ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.If})
_KEPT_WALKS = 1024
"""Files, functions and loops of a project; with fewer, those that are asked for in turn would drive each other out."""
_NO_PARTS = frozenset({"ctx", "id", "attr", "kind", "type_comment", "level", "module", "asname", "conversion"})


def children(node: ast.AST) -> list[ast.AST]:
    """The parts directly below a node."""
    found: list[ast.AST] = []
    for value in _reader(type(node))(node):  # type: ignore[arg-type]  # classes are hashable
        if type(value) is list:
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Sequence[ast.AST]:
    """The node and everything below it, the nearest first."""
    return _kept_walk(node) if type(node) in _BLOCKS else _walk(node)


@lru_cache(maxsize=_KEPT_WALKS)
def _kept_walk(block: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(_walk(block))


def _walk(node: ast.AST) -> list[ast.AST]:
    found = [node]
    for one in found:  # which grows meanwhile
        found += children(one)
    return found


@cache
def _reader(kind: type[ast.AST]) -> Callable[[ast.AST], list[Any]]:
    """What reads the fields of such a node that may hold others; a node made by hand may lack some."""
    names = [name for name in kind._fields if name not in _NO_PARTS] if kind is not ast.Constant else []
    return lambda node: [getattr(node, name, None) for name in names]
