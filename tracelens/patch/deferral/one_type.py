"""Whether a value of a loop has the same type in each batch: a stack of several types has the widest of them.

In: an expression and the facts of its loop. Out: yes, or not known: a choice, a function with branches or one that is
told something else in each batch, and a tensor of Python's values may be whole numbers now and a fraction then.
"""

from __future__ import annotations

import ast

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.outside import words
from tracelens.patch.deferral.value_types import TENSOR_FUNCTIONS, goes_backward, is_number, is_tensor, values_of
from tracelens.patch.loop.facts import LoopFacts

_BY_VALUE = words("torch.tensor torch.as_tensor torch.asarray torch.scalar_tensor")
_ONE_TYPE = words("float double half bfloat16 long int bool argmax argmin eq ne gt ge lt le isnan isfinite size numel")
"""Methods that give the same type whatever they are called on."""


def has_one_type(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a tensor has the same type in each batch, or always one of those with a fraction.

    A stack of several types has the widest of them: no number with a fraction changes then, but 3 becomes 3.0.
    """
    if not isinstance(node, cst.Name):
        return not _may_change(node, facts)
    if node.value in goes_backward(facts):
        return True
    inside = set(walk(facts.loop.body))
    values = [value for value in values_of(node.value, facts) if value is not None and value in inside]
    return len(values) <= 1 and not any(_may_change(value, facts) for value in values)


def _may_change(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether the type of a value may depend on the batch."""
    if isinstance(node, cst.Call):
        return _may_change_in_call(node, facts)
    if isinstance(node, cst.Name):
        return not has_one_type(node, facts)
    return isinstance(node, cst.IfExp) or any(_may_change(part, facts) for part in _parts(node))


def _parts(node: cst.BaseExpression) -> tuple[cst.BaseExpression, ...]:
    """What decides the type of an expression: not what is compared, nor an index."""
    match node:
        case cst.Attribute() | cst.Subscript():
            return (node.value,)
        case cst.BinaryOperation():
            return (node.left, node.right)
        case cst.UnaryOperation():
            return (node.expression,)
    return ()


def _may_change_in_call(call: cst.Call, facts: LoopFacts) -> bool:
    full = facts.names.qualified(call.func)
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    given = [argument.value for argument in call.args]
    if method in _ONE_TYPE:
        return False
    if method in ("to", "type"):
        parts = (name for value in given for name in walk(value) if isinstance(name, cst.Name))
        return any(name.value in facts.varying for name in parts)
    if full in _BY_VALUE:
        return any(facts.varies(value) and not is_tensor(value, facts) for value in given)
    if full.startswith(TENSOR_FUNCTIONS):
        return any(_may_change(value, facts) for value in given)
    if isinstance(call.func, cst.Attribute) and (
        _may_change(call.func.value, facts) or is_tensor(call.func.value, facts)
    ):
        return _may_change(call.func.value, facts)
    told = any(facts.varies(value) and is_number(value, facts) for value in given)
    name = method or getattr(call.func, "value", "")
    return told or any(map(_has_branches, facts.source.project_functions.get(name, ())))


def _has_branches(function: ast.FunctionDef) -> bool:
    """Whether a function may return one thing or another."""
    nodes = tuple(ast.walk(function))
    choices = any(isinstance(one, (ast.If, ast.IfExp, ast.Try, ast.Match)) for one in nodes)
    return choices or sum(isinstance(one, ast.Return) for one in nodes) > 1
