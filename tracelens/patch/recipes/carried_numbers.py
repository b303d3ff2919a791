"""What stands beside tensors in a dict, and may be one as well: a look would read it, which it was not before.

In: an expression. Out: whether it may be a tensor, told by what its names are bound by. A parameter and an attribute
are taken for numbers, which the patch says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from tracelens.patch.code.formats import reduces
from tracelens.patch.code.names import dotted, last_name, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loops import own_nodes, scope_of
from tracelens.patch.loop.sites import tensor_names
from tracelens.patch.recipes.carried_forms import is_item

_OF_NUMBERS = words("int float len round str bool repr time perf_counter get_lr get_last_lr item format")
"""Last names of calls that give a number, a text or a list of them."""
_COUNTS = words("range trange")
_CONTAINERS = (cst.Dict, cst.List, cst.Tuple, cst.Set, cst.BaseComp)
_PARTS: Mapping[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Subscript: ("value",),
    cst.IfExp: ("body", "orelse"),
    cst.BinaryOperation: ("left", "right"),
    cst.BooleanOperation: ("left", "right"),
    cst.UnaryOperation: ("expression",),
}
"""Operations, by which of their parts make a tensor of them."""
_DEPTH = 4


def may_be_tensor(source: SourceFile, value: cst.BaseExpression, depth: int = _DEPTH) -> bool:
    """Whether a value that somebody puts into a dict may be a tensor, or hold one."""
    if isinstance(value, _CONTAINERS) or reduces(value) or not depth:
        return True
    if isinstance(value, cst.Call):
        full = source.names.qualified(value.func)
        last = last_name(value.func)
        return not (last in _OF_NUMBERS or is_item(value) or full.partition(".")[0] in ("numpy", "math", "time"))
    if isinstance(value, cst.Name):
        parts = list(_bound(source, value))
        if value.value in tensor_names(source):
            return True
    elif type(value) in _PARTS:
        parts = [getattr(value, name) for name in _PARTS[type(value)]]
    else:
        return not isinstance(value, (cst.Attribute, cst.BaseNumber, cst.BaseString))
    return any(one is None or may_be_tensor(source, one, depth - 1) for one in parts)


def _bound(source: SourceFile, name: cst.Name) -> Iterator[cst.BaseExpression | None]:
    """What a name is given in its function; None for what is taken out of something else, such as a batch."""
    for node in own_nodes(scope_of(source, name)):
        if isinstance(node, cst.Assign):
            for target in node.targets:
                if dotted(target.target) == name.value:
                    yield node.value
                elif not isinstance(target.target, (cst.Name, cst.Attribute, cst.Subscript)) and _has(target, name):
                    yield None
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign)) and dotted(node.target) == name.value:
            if node.value is not None:
                yield node.value
        elif isinstance(node, cst.For) and _has(node.target, name) and not _counts(node, name):
            yield None


def _has(node: cst.CSTNode, name: cst.Name) -> bool:
    return any(isinstance(one, cst.Name) and one.value == name.value for one in walk(node))


def _counts(loop: cst.For, name: cst.Name) -> bool:
    """`for step in range(10)`, `for step, batch in enumerate(loader)`: whether the name is the count."""
    called = [dotted(node.func).rpartition(".")[2] for node in walk(loop.iter) if isinstance(node, cst.Call)]
    if isinstance(loop.target, cst.Name):
        return bool(_COUNTS.intersection(called))
    first = loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) else None
    return "enumerate" in called and dotted(first) == name.value
