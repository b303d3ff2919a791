"""Loops over tensors that recipes make into a few calls: which one stands at a line, and who else uses its variables.

In: a RecipeRequest, nodes of its file. Out: nodes and names, or `Blocked`, for `average_at_once` and `read_at_once`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import Blocked, check_kept, innermost_loop
from tracelens.patch.proposal import RecipeRequest


def loop_at(source: SourceFile, line: int | None) -> cst.For | None:
    """The innermost loop at a line."""
    loops = [node for node in walk(source.module) if isinstance(node, cst.For) and source.covers(node, line)]
    return max(loops, key=source.line, default=None)


def method_call(node: cst.CSTNode) -> tuple[cst.BaseExpression, str, Sequence[cst.Arg]] | None:
    """Object, name and arguments of a method's call."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value, node.func.attr.value, node.args


def in_place_of(source: SourceFile, loop: cst.For, lines: Sequence[str]) -> Splice:
    """Lines in the place of a loop, below the comments that it has."""
    start, end = source.span(loop)
    text = source.text[start:end]
    comments = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    ending = "\n" if text.endswith("\n") else ""
    return Splice(start, end, f"\n{source.indentation(loop)}".join([*comments, *lines]) + ending)


def check_replaceable(request: RecipeRequest, node: cst.CSTNode, variables: Collection[str], by_hand: str) -> None:
    """Raise `Blocked` where torch is not known by its name, or variables that `node` binds are used outside of it."""
    source = request.source
    if request.names.qualified(cst.Name("torch")) != "torch":
        raise Blocked(node, say("the file does not import torch by that name"), by_hand)
    check_kept(source, node, node)
    inside = {id(each) for each in walk(node)}
    scope = next((above for above in source.ancestors(node) if isinstance(above, cst.FunctionDef)), source.module)
    for each in walk(scope):
        if not isinstance(each, cst.Name) or each.value not in variables or id(each) in inside:
            continue
        if not _is_over(source, each, node, scope) and not _bound_nearby(source, each):
            raise Blocked(node, say("`{each}` is used outside of the loop, too", each=each.value), by_hand)


def _is_over(source: SourceFile, name: cst.Name, loop: cst.CSTNode, scope: cst.CSTNode) -> bool:
    """Whether a name of a function is used before its loop, which runs once."""
    once = innermost_loop(source, loop) is None
    return isinstance(scope, cst.FunctionDef) and once and source.line(name) < source.line(loop)


def _bound_nearby(source: SourceFile, name: cst.Name) -> bool:
    """Whether another loop, a comprehension or a function of its own binds it, or it is no variable at all."""
    parent = source.parent(name)
    if isinstance(parent, cst.Attribute) and parent.attr is name:
        return True
    if isinstance(parent, (cst.Arg, cst.Param)):
        return getattr(parent, "keyword", None) is name or getattr(parent, "name", None) is name
    for above in source.ancestors(name):
        target = above.target if isinstance(above, (cst.For, cst.CompFor)) else None
        generators = (
            (above.for_in,) if isinstance(above, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)) else ()
        )
        targets = [one for one in (target, *(each.target for each in generators)) if one is not None]
        if any(isinstance(node, cst.Name) and node.value == name.value for one in targets for node in walk(one)):
            return True
    return False


def unused_variable(source: SourceFile, wanted: str) -> str:
    """`wanted`, with a number where the file has a variable of that name already."""
    variables = {
        node.value for node in walk(source.module) if isinstance(node, cst.Name) and _is_variable(source, node)
    }
    return unused_name(wanted, variables)


def _is_variable(source: SourceFile, name: cst.Name) -> bool:
    parent = source.parent(name)
    return not (isinstance(parent, cst.Attribute) and parent.attr is name)
