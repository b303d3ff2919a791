"""The value of a plain expression in a running frame: names, attributes, numbers, sums, lengths.

In: an expression of the script's source as AST, and the frame that runs it. Out: its value, or `UnknownValue`. No code
of the user's is called but `__len__`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import FrameType
from typing import Any

from tracelens.capture.inside import process_facts

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class UnknownValue(Exception):
    """The value of an expression cannot be known without running the user's code."""


def value(node: ast.expr, frame: FrameType) -> Any:
    """The value of a name, an attribute, a constant, a sum, product or length; else raises `UnknownValue`."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        inner = getattr(value(node.value, frame), "__dict__", {})
        if node.attr in inner:
            return inner[node.attr]
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = integer(node.left, frame), integer(node.right, frame)
        if right or not isinstance(node.op, ast.FloorDiv):
            return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" and len(node.args) == 1:
        return length(value(node.args[0], frame))
    raise UnknownValue


def integer(node: ast.expr, frame: FrameType) -> int:
    """The value, if it is an integer; else raises `UnknownValue`."""
    number = value(node, frame)
    if not isinstance(number, int):
        raise UnknownValue
    return number


def length(sized: Any) -> int:
    """`len(sized)`; raises `UnknownValue` where it has none."""
    size = process_facts.length(sized)
    if size is None:
        raise UnknownValue
    return size
