"""Pieces of a file by line and column, and the nodes that stand there.

In: trees of Python's own parser. Out: spans and nodes. Lines count from 1, columns in bytes from 0, as the parser's do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tracelens.patch.effects import syntax
from tracelens.patch.effects.scopes import FUNCTIONS
from tracelens.patch.effects.scopes import Function as FunctionNode

_PLACED = (ast.stmt, ast.expr, ast.excepthandler, ast.arg, ast.keyword, ast.alias)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
Loop = ast.For | ast.AsyncFor | ast.While
KEPT_TREES = 1024
"""Files and functions whose nodes are looked up by place, many times: those of a whole project."""
KEPT_STATEMENTS = 4096
"""Statements of loops that are asked the same with each other one."""


@dataclass(frozen=True, order=True)
class Span:
    """A piece of a file; the end is excluded."""

    line: int
    column: int
    end_line: int
    end_column: int

    def holds(self, node: ast.AST) -> bool:
        """Whether a node stands within the piece; one without a place stands nowhere."""
        if not isinstance(node, _PLACED):
            return False
        if node.lineno < self.line or (node.lineno == self.line and node.col_offset < self.column):
            return False
        end = node.end_lineno or node.lineno
        return end < self.end_line or (end == self.end_line and (node.end_col_offset or 0) <= self.end_column)


def span_of(node: ast.AST) -> Span | None:
    """Where a node stands; None for one without a place."""
    if not isinstance(node, _PLACED):
        return None
    return Span(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


def position(node: ast.AST) -> tuple[int, int]:
    """Line and column where a node begins, to order nodes of one file by; zeros for one without a place."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def last_name(node: ast.AST | None) -> str:
    """`compile` of `torch.compile` and of `model().compile`; "" of what is no name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def loop_at(tree: ast.AST, line: int, column: int | None = None) -> Loop | None:
    """The loop that starts there."""
    for node in _loops(tree):
        if node.lineno == line and column in (None, node.col_offset):
            return node
    return None


def nodes_in(tree: ast.AST, span: Span) -> Iterator[ast.AST]:
    """The outermost nodes within the piece."""
    for child in syntax.children(tree):
        if span.holds(child):
            yield child
        else:
            yield from nodes_in(child, span)


def path_to(tree: ast.AST, wanted: ast.AST) -> list[ast.AST]:
    """The nodes around a node, the outermost first, and the node; empty where the tree does not have it."""
    outer_of = around(tree)
    path = [wanted]
    while path[-1] is not tree:
        outer = outer_of.get(path[-1])
        if outer is None:
            return []
        path.append(outer)
    return path[::-1]


@lru_cache(maxsize=KEPT_TREES)
def around(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """The node around each node of a tree; the parser shares those without a place (`Load`), which have many."""
    return {inner: outer for outer in syntax.walk(tree) for inner in syntax.children(outer)}


@lru_cache(maxsize=KEPT_TREES)
def _loops(tree: ast.AST) -> tuple[Loop, ...]:
    return tuple(node for node in syntax.walk(tree) if isinstance(node, LOOPS))


def function_of(tree: ast.AST, wanted: ast.AST) -> ast.AST:
    """The function around a node, or the module."""
    around = [node for node in path_to(tree, wanted)[:-1] if isinstance(node, (*FUNCTIONS, ast.Module))]
    return around[-1]


def functions_around(tree: ast.AST, wanted: ast.AST) -> tuple[FunctionNode, ...]:
    """The functions around a node, the outermost first."""
    return tuple(node for node in path_to(tree, wanted)[:-1] if isinstance(node, FUNCTIONS))


def functions_with_loops(tree: ast.AST) -> tuple[FunctionNode, ...]:
    """All functions with a loop in them or in an inner function, outer ones before inner ones."""
    return tuple(
        node
        for node in syntax.walk(tree)
        if isinstance(node, FUNCTIONS) and any(isinstance(inner, LOOPS) for inner in syntax.walk(node))
    )


def statement_before(tree: ast.AST, wanted: ast.AST) -> ast.stmt | None:
    """The statement before the one that holds a node, in the same block."""
    around = path_to(tree, wanted)
    for outer, inner in zip(reversed(around[:-1]), reversed(around[1:]), strict=True):
        if isinstance(inner, ast.stmt):
            blocks = (getattr(outer, name, None) for name in ("body", "orelse", "finalbody"))
            block = next((one for one in blocks if isinstance(one, list) and inner in one), [inner])
            at = block.index(inner)
            return block[at - 1] if at else None
    return None
