"""Whether a statement may raise an error, as far as its text and that of the functions that it calls show.

In: an analysis, and a statement of one unit. Out: a bool. What is not known to raise nothing may raise: the answer is
asked for where more than the end of the process depends on the batch at which an error comes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from tracelens.patch.effects import syntax
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.memory import Unit
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import Activation, Module
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import FUNCTIONS

_CANNOT_FAIL = frozenset(
    [
        *("add", "add_scalar", "append", "cpu", "debug", "detach", "error", "float", "format", "info", "item", "len"),
        *("print", "set_postfix", "str", "tolist", "warning", "write"),
    ]
)
_SUMS = (ast.Add, ast.Sub, ast.Mult)
_NEVER_RAISE = (
    *(ast.AnnAssign, ast.Attribute, ast.BoolOp, ast.Compare, ast.Constant, ast.Dict, ast.DictComp, ast.Expr, ast.For),
    *(ast.FormattedValue, ast.GeneratorExp, ast.Global, ast.If, ast.IfExp, ast.JoinedStr, ast.List, ast.ListComp),
    *(ast.Name, ast.NamedExpr, ast.Nonlocal, ast.Pass, ast.Return, ast.Tuple, ast.UnaryOp, ast.While),
    *(ast.boolop, ast.cmpop, ast.comprehension, ast.expr_context, ast.keyword, ast.operator, ast.unaryop),
)
"""Kinds of nodes that raise nothing by themselves where their values are numbers, words and what holds them."""


def may_raise(
    analysis: Analysis, unit: Module | Activation, statement: ast.AST, is_kept: Callable[[ast.AST], bool]
) -> bool:
    """Whether a statement does more than what cannot fail: sums, lists, lines. `is_kept`: what has its value already,
    so that an error in it comes where it stands."""
    nodes = tuple(walk_without(statement, is_kept))
    bodies = (body_of(called) for called in called_by(analysis, unit, nodes))
    return any(map(_may_raise, nodes)) or any(_may_raise(node) for body in bodies for node in body)


def walk_without(node: ast.AST, is_left_out: Callable[[ast.AST], bool]) -> Iterator[ast.AST]:
    """A node and what is in it, except for what is left out."""
    if not is_left_out(node):
        yield node
        for child in syntax.children(node):
            yield from walk_without(child, is_left_out)


def called_by(analysis: Analysis, unit: Unit, nodes: Iterable[ast.AST]) -> Iterator[Activation]:
    """The functions of the project that these nodes call, and those that these call in turn."""
    own = frozenset(nodes)
    seen: set[Unit] = set()
    waiting = [called for node, called in analysis.memory.summaries[unit].calls if node in own]
    while waiting:
        called = waiting.pop()
        if called not in seen:
            seen.add(called)
            if isinstance(called, Activation):
                yield called
            summary = analysis.memory.summaries.get(called)
            waiting += [inner for _, inner in summary.calls] if summary is not None else []


def body_of(called: Activation) -> Iterator[ast.AST]:
    """What runs in a call of a function, without the functions that it defines."""
    code = code_of(called)
    for part in [code.body] if isinstance(code, ast.Lambda) else code.body:
        yield from walk_without(part, lambda node: isinstance(node, FUNCTIONS))


def _may_raise(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return last_name(node.func) not in _CANNOT_FAIL
    if isinstance(node, ast.BinOp):
        return not (isinstance(node.op, _SUMS) or _is_text(node.left) or _is_number_but_zero(node.right))
    if isinstance(node, ast.AugAssign):  # of a key it also reads
        return isinstance(node.target, ast.Subscript) or not (
            isinstance(node.op, _SUMS) or _is_number_but_zero(node.value)
        )
    if isinstance(node, ast.Subscript):
        return not (isinstance(node.ctx, ast.Store) and _is_text(node.slice))  # only a dict has words as keys
    if isinstance(node, ast.Assign):
        return any(_is_unpacked_blindly(target, node.value) for target in node.targets)
    return not isinstance(node, _NEVER_RAISE)


def _is_unpacked_blindly(target: ast.expr, value: ast.expr) -> bool:
    """Whether a value is taken apart of which nobody sees here how many parts it has."""
    shapes = (ast.Tuple, ast.List)
    return isinstance(target, shapes) and not (isinstance(value, shapes) and len(target.elts) == len(value.elts))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_number_but_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value != 0
