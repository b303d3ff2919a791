"""The value of a plain expression in a running frame: names, attributes, numbers, quotients, lengths, shapes.

In: an expression of the script's source as AST, and the frame that runs it. Out: its value, or `UnknownValue`. No code
of the user's is called but `__len__`: a function is called only where the name means Python's own, and the shape is
asked only of what is exactly a tensor of torch or an array of NumPy.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tracelens.capture.inside import process_facts

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_NUMBERS = (int, min, max, abs, math.ceil, math.floor)
"""Functions of numbers that a script may call, under whatever name it has them."""


class UnknownValue(Exception):
    """The value of an expression cannot be known without running the user's code."""


def value(node: ast.expr, frame: FrameType) -> Any:
    """The value of such an expression; else raises `UnknownValue`."""
    read = _READERS.get(type(node))
    if read is None:
        raise UnknownValue
    return read(node, frame)


def _arithmetic(node: ast.BinOp, frame: FrameType) -> float:
    combine = _ARITHMETIC.get(type(node.op))
    left, right = _number(node.left, frame), _number(node.right, frame)
    if combine is None or (not right and isinstance(node.op, ast.FloorDiv | ast.Div)):
        raise UnknownValue
    return combine(left, right)  # type: ignore[no-any-return]


def _negative(node: ast.UnaryOp, frame: FrameType) -> float:
    if not isinstance(node.op, ast.USub):
        raise UnknownValue
    return -_number(node.operand, frame)


def _named(name: str, frame: FrameType) -> Any:
    for names in (frame.f_locals, frame.f_globals, vars(builtins)):
        if name in names:
            return names[name]
    raise UnknownValue


def _attribute(owner: Any, name: str) -> Any:
    inner = getattr(owner, "__dict__", {})
    if name in inner:
        return inner[name]
    if name == "shape" and (_is(owner, "torch", "Tensor") or _is(owner, "numpy", "ndarray")):
        return owner.shape
    raise UnknownValue


def _item(owner: Any, index: Any) -> Any:
    if not isinstance(owner, tuple | list) or not isinstance(index, int) or not -len(owner) <= index < len(owner):
        raise UnknownValue
    return owner[index]


def _called(node: ast.Call, frame: FrameType) -> Any:
    """The value of `len(x)`, `x.size(0)` of a tensor, or one of Python's own functions of numbers."""
    if node.keywords:
        raise UnknownValue
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "numel"):
        owner = value(node.func.value, frame)
        if not _is(owner, "torch", "Tensor"):
            raise UnknownValue
        return getattr(owner, node.func.attr)(*(integer(argument, frame) for argument in node.args))
    function = value(node.func, frame)
    if function is len and len(node.args) == 1:
        return length(value(node.args[0], frame))
    if node.args and any(function is own for own in _NUMBERS):
        return function(*(_number(argument, frame) for argument in node.args))
    raise UnknownValue


def _is(owner: Any, library: str, name: str) -> bool:
    """Whether it is exactly of that class: what a subclass answers may run the user's code."""
    return type(owner) is getattr(sys.modules.get(library), name, None)


def _number(node: ast.expr, frame: FrameType) -> float:
    number = value(node, frame)
    if not isinstance(number, int | float):
        raise UnknownValue
    return number


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


_READERS: dict[type[ast.expr], Callable[[Any, FrameType], Any]] = {
    ast.Constant: lambda node, _frame: node.value,
    ast.Name: lambda node, frame: _named(node.id, frame),
    ast.Attribute: lambda node, frame: _attribute(value(node.value, frame), node.attr),
    ast.Subscript: lambda node, frame: _item(value(node.value, frame), value(node.slice, frame)),
    ast.UnaryOp: _negative,
    ast.BinOp: _arithmetic,
    ast.Call: _called,
}
