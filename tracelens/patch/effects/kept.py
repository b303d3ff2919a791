"""What of a statement that runs later can be evaluated where the statement stands: all that its results do not touch.

In: the statements of a loop that run later. Out: the pieces of them whose values are kept. The patcher keeps the same;
this is for the question asked without one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tracelens.patch.effects.places import Span, span_of


def evaluated_in_place(statements: Sequence[ast.AST]) -> tuple[Span, ...]:
    """The pieces of the statements that do not depend on what the statements change."""
    changed = frozenset(name for statement in statements for node in ast.walk(statement) for name in _changed(node))
    return tuple(piece for statement in statements for piece in _pieces(statement, changed))


def _changed(node: ast.AST) -> Iterator[str]:
    """The texts of the names, attributes and objects that a statement changes."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        targets = [node.value.func.value]
    for target in targets:
        yield from _roots(target)


def _roots(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _roots(element)
        return
    while isinstance(target, (ast.Subscript, ast.Call, ast.Starred)):
        target = target.func if isinstance(target, ast.Call) else target.value
    if isinstance(target, (ast.Name, ast.Attribute)):
        yield ast.unparse(target)


def _pieces(node: ast.AST, changed: frozenset[str]) -> Iterator[Span]:
    for child in _values(node):
        span = span_of(child)
        if isinstance(child, ast.expr) and span is not None and not _touches(child, changed):
            yield span
        else:
            yield from _pieces(child, changed)


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that are evaluated: what is called and what is bound are no values."""
    if isinstance(node, ast.Expr):
        yield from _values(node.value)
    elif isinstance(node, ast.Call):
        yield from (*node.args, *node.keywords)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, (ast.Call, ast.Subscript)):
            yield owner
    elif isinstance(node, ast.Subscript):
        yield from (node.value, node.slice) if isinstance(node.value, (ast.Subscript, ast.Call)) else (node.slice,)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target for target in targets if isinstance(target, ast.Subscript))
        if node.value is not None:
            yield node.value
    else:
        yield from ast.iter_child_nodes(node)


def _touches(node: ast.AST, changed: frozenset[str]) -> bool:
    for part in ast.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute)):
            text = ast.unparse(part)
            if text in changed or any(one.startswith(f"{text}.") for one in changed if isinstance(part, ast.Name)):
                return True
    return False
