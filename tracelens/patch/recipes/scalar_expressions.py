"""Whether an expression makes one number of a tensor, and does nothing else.

In: an expression and the names of tensors. Out: a bool. A word is listed where it changes nothing that a tensor holds,
and where its shape is known: reductions without a dimension give one number.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.recipes.tensor_loops import method_call

_REDUCTIONS = ("norm", "sum", "mean", "max", "min", "std", "var", "amax", "amin", "median", "prod", "any", "all")
_ELEMENTWISE = ("detach", "float", "double", "abs", "pow", "square", "sqrt", "clone", "isnan", "isinf", "log")
_FUNCTIONS = ("torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm", "torch.mean", "torch.sum", "torch.max")
_FIELDS = ("data", "grad")


def is_one_number(node: cst.BaseExpression, tensors: Collection[str]) -> bool:
    """Whether it is a tensor without dimensions, made of one of `tensors` by operations that change nothing."""
    if isinstance(node, cst.BinaryOperation):
        sides = [is_one_number(side, tensors) for side in (node.left, node.right)]
        plain = [_is_literal(side) for side in (node.left, node.right)]
        return any(sides) and all(one or other for one, other in zip(sides, plain, strict=True))
    if isinstance(node, cst.Attribute):
        return node.attr.value == "data" and is_one_number(node.value, tensors)
    if isinstance(node, cst.Call) and dotted(node.func) in _FUNCTIONS:
        return (
            bool(node.args)
            and _is_tensor(node.args[0].value, tensors)
            and _is_over_all(dotted(node.func), node.args[1:])
        )
    made = method_call(node)
    if made is None:
        return False
    if made[1] in _REDUCTIONS:
        return _is_tensor(made[0], tensors) and _is_over_all(made[1], made[2])
    return _is_elementwise(made) and is_one_number(made[0], tensors)


def _is_tensor(node: cst.BaseExpression, tensors: Collection[str]) -> bool:
    """One of the tensors, or what is made of it element by element."""
    if isinstance(node, cst.Name):
        return node.value in tensors
    if isinstance(node, cst.Attribute):
        return node.attr.value in _FIELDS and _is_tensor(node.value, tensors)
    if isinstance(node, cst.BinaryOperation):
        sides = (node.left, node.right)
        known = [_is_tensor(side, tensors) for side in sides]
        return any(known) and all(one or _is_literal(side) for one, side in zip(known, sides, strict=True))
    made = method_call(node)
    return made is not None and _is_elementwise(made) and _is_tensor(made[0], tensors)


def _is_elementwise(made: tuple[cst.BaseExpression, str, Sequence[cst.Arg]]) -> bool:
    return made[1] in _ELEMENTWISE and all(_is_literal(each.value) for each in made[2])


def _is_over_all(reduction: str, arguments: Sequence[cst.Arg]) -> bool:
    """Whether a reduction is over all elements: a norm may say which one it is, the others say nothing."""
    if reduction.rpartition(".")[2] not in ("norm", "vector_norm"):
        return not arguments
    kinds = [each for each in arguments if each.keyword is None or each.keyword.value in ("p", "ord")]
    return len(kinds) == len(arguments) <= 1 and all(_is_literal(each.value) or dotted(each.value) for each in kinds)


def _is_literal(node: cst.BaseExpression) -> bool:
    parts = [each for each in walk(node) if isinstance(each, cst.BaseExpression)]
    return all(isinstance(each, (cst.Integer, cst.Float, cst.UnaryOperation)) for each in parts)
