"""average-at-once: a loop that averages weights tensor by tensor becomes torch's calls for many tensors.

In: a RecipeRequest. Out: one Proposal per loop over `zip` of two sets of tensors, or over the names in a dict of them,
whose one statement is `average.mul_(d).add_(own, alpha=w)`, `average.lerp_(own, w)`, or
`average.data = average.data * d + own.data * w`. The calls do the same operations in the same order per tensor. On the
CPU they are equal bit for bit in float32, float64 and bfloat16 (a test), and not in float16; what kernels for many
tensors on a GPU do shows in a trial.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import Blocked, check_framework
from tracelens.patch.proposal import Proposal, RecipeAnswer, RecipeRequest, by_target
from tracelens.patch.recipes.tensor_loops import check_replaceable, in_place_of, loop_at, method_call, unused_variable

BY_HAND = say("write torch._foreach_mul_ and torch._foreach_add_, or torch._foreach_lerp_, over lists of the tensors")
NO_LOOP = say("no loop on this line that averages tensors of two sets in one statement")
UNPROVED = say(
    "whether the kernels for many tensors round as those for one, whether both sets have "
    "as many tensors, whether one of them is in a set twice, and whether somebody keeps "
    "an average that is assigned anew"
)
_SETS = ("parameters", "buffers", "values")
_SAME = ("data", "detach")
"""What a tensor may be taken by: `p.data`, `p.detach()`. It is kept in the lists."""


@dataclass(frozen=True)
class _Average:
    """`variables` are bound by the loop; `lists`: a name and the text of a list, of what is averaged and what with."""

    loop: cst.For
    variables: tuple[str, ...]
    lists: tuple[tuple[str, str], tuple[str, str]]
    calls: tuple[str, ...]
    """With {0} and {1} for the lists."""


def propose(request: RecipeRequest) -> RecipeAnswer:
    return by_target(request, _averaged)


def _averaged(request: RecipeRequest, line: int | None) -> tuple[cst.CSTNode, Proposal]:
    check_framework(request.names)
    loop = loop_at(request.source, line)
    if loop is None:
        raise Blocked(None, NO_LOOP, BY_HAND)
    found = _average(request.source, loop)
    check_replaceable(request, loop, found.variables, BY_HAND)
    return loop, _proposal(request, found)


def _average(source: SourceFile, loop: cst.For) -> _Average:
    body = loop.body.body
    statement = body[0] if len(body) == 1 else None
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    if loop.orelse is not None or loop.asynchronous is not None or not isinstance(small, (cst.Expr, cst.Assign)):
        raise Blocked(loop, NO_LOOP, BY_HAND)
    if isinstance(small, cst.Assign):
        calls, average, own = _assigned(source, small, _bound(loop))
    else:
        calls, average, own = _operations(source, small.value, _bound(loop))
    if isinstance(loop.target, cst.Name):
        return _Average(loop, _bound(loop), _by_name(source, loop, average, own), calls)
    variables, sets = _zipped(source, loop)
    if dotted(_behind(average)) == variables[1]:
        variables, sets = variables[::-1], sets[::-1]
    taken = _taken(source, average, variables[0]), _taken(source, own, variables[1])
    first, second = (
        (variable, f"[*{those}]" if text == variable else f"[{text} for {variable} in {those}]")
        for those, text, variable in zip(sets, taken, variables, strict=True)
    )
    return _Average(loop, variables, (first, second), calls)


def _bound(loop: cst.For) -> tuple[str, ...]:
    return tuple(node.value for node in walk(loop.target) if isinstance(node, cst.Name))


def _by_name(
    source: SourceFile, loop: cst.For, average: cst.BaseExpression, own: cst.BaseExpression
) -> tuple[tuple[str, str], tuple[str, str]]:
    """The lists for `for k in averages`, or `averages.keys()`, with `averages[k]` and `own[k]` in the statement."""
    (key,) = _bound(loop)
    method = method_call(loop.iter)
    over = method[0] if method is not None and method[1] == "keys" and not method[2] else loop.iter
    if not dotted(over):
        raise Blocked(loop, NO_LOOP, BY_HAND)
    names = tuple(_indexed(node, key) for node in (average, own))
    if names[0] != dotted(over):
        raise Blocked(loop, say("it runs over another set than the one that is averaged"), BY_HAND)
    first, second = (
        (name.rpartition(".")[2], f"[{source.code(node)} for {key} in {source.code(loop.iter)}]")
        for name, node in zip(names, (average, own), strict=True)
    )
    return first, second


def _indexed(node: cst.BaseExpression, key: str) -> str:
    """`tensors` of `tensors[key]`, also behind `.data` or `.detach()`."""
    inner = _behind(node)
    slices = inner.slice if isinstance(inner, cst.Subscript) else ()
    index = slices[0].slice if len(slices) == 1 else None
    named = isinstance(index, cst.Index) and isinstance(index.value, cst.Name) and index.value.value == key
    if not isinstance(inner, cst.Subscript) or not named or not dotted(inner.value):
        raise Blocked(node, say("it does more with `{key}`", key=key), BY_HAND)
    return dotted(inner.value)


def _zipped(source: SourceFile, loop: cst.For) -> tuple[tuple[str, str], tuple[str, str]]:
    """The two loop variables, and what they run over."""
    call, target = loop.iter, loop.target
    names = [one.value for one in target.elements] if isinstance(target, cst.Tuple) else []
    plain = isinstance(call, cst.Call) and dotted(call.func) == "zip" and source.means_builtin("zip")
    if not isinstance(call, cst.Call) or not plain or len(names) != 2 or len(call.args) < 2:
        raise Blocked(loop, NO_LOOP, BY_HAND)
    one, other = names
    extra = [argument for argument in call.args[2:] if not (argument.keyword and argument.keyword.value == "strict")]
    if not (isinstance(one, cst.Name) and isinstance(other, cst.Name)) or extra:
        raise Blocked(loop, NO_LOOP, BY_HAND)
    first, second = call.args[0], call.args[1]
    if first.star or second.star or not (_is_set(first.value) and _is_set(second.value)):
        raise Blocked(loop, say("what it runs over is not the parameters, buffers or values of something"), BY_HAND)
    return (one.value, other.value), (source.code(first.value), source.code(second.value))


def _is_set(node: cst.BaseExpression) -> bool:
    """`model.parameters()`, `state.values()`, or a name: making a list of it twice over runs nothing else."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return bool(dotted(node))
    method = method_call(node)
    return method is not None and method[1] in _SETS and not method[2] and bool(dotted(method[0]))


def _operations(
    source: SourceFile, node: cst.BaseExpression, variables: tuple[str, ...]
) -> tuple[tuple[str, ...], cst.BaseExpression, cst.BaseExpression]:
    """The calls for many tensors, what is averaged, and what with."""
    outer = method_call(node)
    if outer is not None and outer[1] == "lerp_" and len(outer[2]) == 2 and _plain(outer[2][1], variables, None):
        own, weight = outer[2]
        return (f"torch._foreach_lerp_({{0}}, {{1}}, {source.code(weight.value)})",), outer[0], own.value
    inner = method_call(outer[0]) if outer is not None and outer[1] == "add_" else None
    if outer is None or inner is None or inner[1] != "mul_" or len(outer[2]) != 2 or len(inner[2]) != 1:
        raise Blocked(None, NO_LOOP, BY_HAND)
    own, weight = outer[2]
    if _plain(own, variables, None) and weight.keyword is None:  # torch before 1.5: add_(w, own)
        own, weight = weight, own.with_changes(keyword=cst.Name("alpha"))
    if not _plain(weight, variables, "alpha") or not _plain(inner[2][0], variables, None):
        raise Blocked(None, say("its factors are not plain numbers"), BY_HAND)
    factor, alpha = source.code(inner[2][0].value), source.code(weight.value)
    return (
        (
            f"torch._foreach_mul_({{0}}, {factor})",
            f"torch._foreach_add_({{0}}, {{1}}, alpha={alpha})",
        ),
        inner[0],
        own.value,
    )


def _assigned(
    source: SourceFile, node: cst.Assign, variables: tuple[str, ...]
) -> tuple[tuple[str, ...], cst.BaseExpression, cst.BaseExpression]:
    """The same for `average.data = average.data * d + own.data * w`, whose products are rounded before the sum."""
    total, target = node.value, node.targets[0].target
    is_sum = isinstance(total, cst.BinaryOperation) and isinstance(total.operator, cst.Add)
    if len(node.targets) != 1 or not is_sum or not isinstance(total, cst.BinaryOperation) or not _is_data(target):
        raise Blocked(None, NO_LOOP, BY_HAND)
    products = [_product(total.left, variables), _product(total.right, variables)]
    mine = [one for one in products if one is not None and source.code(one[0]) == source.code(target)]
    other = [one for one in products if one is not None and one not in mine and _behind(one[0]) is not one[0]]
    if len(mine) != 1 or len(other) != 1:
        raise Blocked(None, NO_LOOP, BY_HAND)
    (average, factor), (own, weight) = mine[0], other[0]
    return (
        (
            f"torch._foreach_mul_({{0}}, {source.code(factor)})",
            f"torch._foreach_add_({{0}}, torch._foreach_mul({{1}}, {source.code(weight)}))",
        ),
        average,
        own,
    )


def _is_data(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "data"


def _product(
    node: cst.BaseExpression, variables: tuple[str, ...]
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """The tensor and the number that are multiplied."""
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
        return None
    for tensor, number in ((node.left, node.right), (node.right, node.left)):
        if _plain(cst.Arg(number), variables, None) and not _plain(cst.Arg(tensor), variables, None):
            return tensor, number
    return None


def _plain(number: cst.Arg, variables: tuple[str, ...], keyword: str | None) -> bool:
    """Whether an argument is one number that does not depend on the tensors."""
    if number.star or (number.keyword.value if number.keyword is not None else None) != keyword:
        return False
    kinds = (cst.Integer, cst.Float, cst.Name, cst.Attribute, cst.BinaryOperation, cst.UnaryOperation)
    parts = [node for node in walk(number.value) if isinstance(node, cst.BaseExpression)]
    names = {node.value for node in parts if isinstance(node, cst.Name)}
    return all(isinstance(node, kinds) for node in parts) and names.isdisjoint(variables)


def _taken(source: SourceFile, node: cst.BaseExpression, variable: str) -> str:
    """`p`, `p.data` or `p.detach()`."""
    inner = _behind(node)
    if not isinstance(inner, cst.Name) or inner.value != variable:
        raise Blocked(node, say("it does more with `{variable}`", variable=variable), BY_HAND)
    return source.code(node)


def _behind(node: cst.BaseExpression) -> cst.BaseExpression:
    """`p` of `p.data` and `p.detach()`."""
    inner = node.func if isinstance(node, cst.Call) and not node.args else node
    return inner.value if isinstance(inner, cst.Attribute) and inner.attr.value in _SAME else node


def _proposal(request: RecipeRequest, found: _Average) -> Proposal:
    source, loop = request.source, found.loop
    lists = tuple(unused_variable(source, f"{name}_tensors") for name, _ in found.lists)
    made = ", ".join(text for _, text in found.lists)
    lines = [f"{lists[0]}, {lists[1]} = {made}", *(call.format(*lists) for call in found.calls)]
    reason = say(
        "the same operations for all tensors, in {calls} calls instead of {calls} per tensor", calls=len(found.calls)
    )
    seen = say("the loop keeps Python busy in each batch (recorded)")
    return request.proposed(loop, reason, seen, (in_place_of(source, loop, lines),)).as_checked(UNPROVED)
