"""Whether a statement computes with tensors, so that it has to run in the block that says how: gradients, types.

In: an analysis, and a statement of one unit within a `with` block. Out: a bool. What is certainly a number or what
holds such is no tensor, everything else may be one: the answer is asked for where a statement leaves the block.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.kind import ARITHMETIC, ARRAY, NUMBER, OF_TENSORS, UNKNOWN
from tracelens.patch.effects.kinds import Kinds
from tracelens.patch.effects.memory import ANY_DATA, DATA, WEIGHTS, Objects, Unit, is_tensor
from tracelens.patch.effects.objects import Activation, Callbacks, Module, Name, Thing, Unknown
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.raising import body_of, called_by, walk_without

_SAME_NUMBERS = frozenset({"record_function", "profile", "nullcontext", "no_sync", "accumulate", "detect_anomaly"})
"""Contexts in which tensors are computed as outside of them."""
_ADDS_UP = frozenset(f"builtins.{name}" for name in ("sum", "abs", "pow", "max", "min", "round"))
_SHOWS = ("builtins.", "logging.", "<list>.", "<logger>.", "<writer>.", "<tracker>.", "<file>.", "<bar>.", "<buffer>.")
"""What shows or keeps what it is given, and computes nothing with it."""


def sets_how_to_compute(item: ast.withitem) -> bool:
    """Whether a block changes what is computed in it: the type, or whether a result has a graph."""
    call = item.context_expr
    return last_name(call.func if isinstance(call, ast.Call) else call) not in _SAME_NUMBERS


def computes(
    analysis: Analysis, unit: Module | Activation, statement: ast.AST, is_kept: Callable[[ast.AST], bool]
) -> bool:
    """Whether a statement, or what it calls, may compute with a tensor. `is_kept`: what has its value already."""
    work = _Work(analysis)
    nodes = tuple(walk_without(statement, is_kept))
    if any(work.is_in(unit, node) for node in nodes):
        return True
    return any(work.is_in(called, node) for called in called_by(analysis, unit, nodes) for node in body_of(called))


class _Work:
    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.kinds = Kinds(analysis)

    def is_in(self, unit: Unit, node: ast.AST) -> bool:
        """Whether one node itself makes a tensor of tensors, or calls what may."""
        if isinstance(unit, Callbacks):
            return True
        if isinstance(node, ast.Call):
            return self._is_call_for_it(unit, node)
        return any(self._may_be_tensor(unit, one) for one in _operands(node))

    def _may_be_tensor(self, unit: Module | Activation, node: ast.expr) -> bool:
        kind = self.kinds.asked(unit, node)
        if kind.what in (NUMBER, ARRAY):
            return False
        return kind != UNKNOWN or _may_hold(self.analysis.value(unit, node))

    def _is_call_for_it(self, unit: Module | Activation, call: ast.Call) -> bool:
        names = [one for one in self.analysis.value(unit, call.func) if isinstance(one, Name)]
        if any(one.full.startswith("torch.") for one in names):
            return True
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        computing = method in OF_TENSORS or method in ARITHMETIC or method.endswith("_")
        if owner is not None and computing and self._may_be_tensor(unit, owner):
            return True
        given = [*call.args, *(one.value for one in call.keywords)]
        told = [one.full for one in names if one.full in _ADDS_UP or not one.full.startswith(_SHOWS)]
        others = any(isinstance(one, Thing) for one in self.analysis.value(unit, call.func))
        return bool(told or others) and any(self._may_be_tensor(unit, one) for one in given)


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.AugAssign):
        return [node.target, node.value]
    if isinstance(node, ast.UnaryOp):
        return [] if isinstance(node.op, ast.Not) else [node.operand]
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
        return [node.left, *node.comparators]
    return []


def _may_hold(objects: Objects) -> bool:
    return any(isinstance(one, Unknown) or one in (DATA, ANY_DATA, WEIGHTS) or is_tensor(one) for one in objects)
