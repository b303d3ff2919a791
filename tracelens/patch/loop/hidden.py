"""What a call is handed by `**kwargs`: the names that can be among them, where one function shows how they are made.

In: a parsed file and a call. Out: names of arguments, or None where another piece of code may add some. Followed are
dict displays, `dict(…)`, a choice of two, `kwargs.update(…)` and `kwargs["name"] = …`, all in the function that makes
the call; whatever else happens to the dict there makes the answer None.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.outside import SEES_NAMES
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import Blocked, own_nodes, scope_of

_DEEPEST = 4
"""Dicts followed one into the other; real scripts need two."""


def names(source: SourceFile, call: cst.Call) -> frozenset[str] | None:
    """All names that the call's `**` arguments can bring along; empty for a call without them."""
    if not _means_builtins(source) and any(argument.star for argument in call.args):
        return None
    out: set[str] = set()
    for argument in call.args:
        if argument.star == "*":
            return None
        found = _keys(source, call, argument.value, _DEEPEST) if argument.star else frozenset[str]()
        if found is None:
            return None
        out |= found
    return frozenset(out)


def _means_builtins(source: SourceFile) -> bool:
    """Whether what is followed here means what it says: nothing of the name is the file's own, no text is run."""
    calls = (dotted(node.func) for node in walk(source.module) if isinstance(node, cst.Call))
    plain = all(source.means_builtin(name) for name in ("dict", "print", "len"))
    return plain and not any(called in SEES_NAMES for called in calls)


def _keys(source: SourceFile, call: cst.Call, value: cst.BaseExpression, depth: int) -> frozenset[str] | None:
    """The keys that a dict can have when the call is made."""
    if depth == 0:
        return None
    if isinstance(value, cst.Dict):
        return _joined([_of_element(source, call, element, depth) for element in value.elements])
    if isinstance(value, cst.IfExp):
        return _joined([_keys(source, call, branch, depth) for branch in (value.body, value.orelse)])
    if isinstance(value, cst.Call) and dotted(value.func) == "dict":
        return _of_arguments(source, call, value, depth)
    return _of_name(source, call, value, depth) if isinstance(value, cst.Name) else None


def _of_element(source: SourceFile, call: cst.Call, element: cst.BaseDictElement, depth: int) -> frozenset[str] | None:
    if isinstance(element, cst.DictElement):
        return _constant(element.key)
    return _keys(source, call, element.value, depth - 1)


def _of_arguments(source: SourceFile, call: cst.Call, made: cst.Call, depth: int) -> frozenset[str] | None:
    """The keys of `dict(a=1, **more)` and of `kwargs.update(more, a=1)`."""
    found: list[frozenset[str] | None] = []
    for argument in made.args:
        if argument.keyword is not None:
            found.append(frozenset({argument.keyword.value}))
        else:
            found.append(None if argument.star == "*" else _keys(source, call, argument.value, depth - 1))
    return _joined(found)


def _of_name(source: SourceFile, call: cst.Call, name: cst.Name, depth: int) -> frozenset[str] | None:
    """What the function that makes the call puts into the dict of that name; None if anybody else could."""
    try:
        scope = scope_of(source, call)
    except Blocked:
        return None
    shared = (n for n in walk(source.module) if isinstance(n, (cst.Global, cst.Nonlocal)))
    if any(item.name.value == name.value for node in shared for item in node.names):
        return None
    found: list[frozenset[str] | None] = []
    known: set[int] = set()
    for node in own_nodes(scope):
        keys, mentions = _told(source, call, name.value, node, depth)
        found += keys
        known |= mentions
    if not found or any(id(node) not in known for node in walk(_home(source, scope)) if _is(node, name.value)):
        return None
    return _joined(found)


def _told(
    source: SourceFile, call: cst.Call, name: str, node: cst.CSTNode, depth: int
) -> tuple[list[frozenset[str] | None], set[int]]:
    """The keys that one node gives the dict, and the places of its name that are accounted for by that."""
    if isinstance(node, cst.Call):
        read = {id(argument.value) for argument in node.args if _only_reads(node, argument)}
        if dotted(node.func) == f"{name}.update" and isinstance(node.func, cst.Attribute):
            return [_of_arguments(source, call, node, depth)], read | {id(node.func.value)}
        return [], read
    if isinstance(node, cst.StarredDictElement):
        return [], {id(node.value)}
    target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    if isinstance(node, cst.Assign) and isinstance(target, cst.Name) and target.value == name:
        return [_keys(source, call, node.value, depth - 1)], {id(target)}
    if isinstance(target, cst.Subscript) and dotted(target.value) == name:
        index = target.slice[0].slice
        return [_constant(index.value) if isinstance(index, cst.Index) else None], {id(target.value)}
    return [], set()


def _only_reads(call: cst.Call, argument: cst.Arg) -> bool:
    """`**kwargs`, `print(kwargs)`, `others.update(kwargs)`: the dict stays what it is."""
    called = dotted(call.func)
    return argument.star == "**" or called in ("print", "len", "dict") or called.endswith(".update")


def _home(source: SourceFile, scope: cst.CSTNode) -> cst.CSTNode:
    """Where the name could be used: its function, or for a global the whole file."""
    return scope if isinstance(scope, cst.FunctionDef) else source.module


def _is(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _constant(key: cst.BaseExpression) -> frozenset[str] | None:
    value = key.evaluated_value if isinstance(key, (cst.SimpleString, cst.ConcatenatedString)) else None
    return frozenset({value}) if isinstance(value, str) else None


def _joined(found: list[frozenset[str] | None]) -> frozenset[str] | None:
    known = [one for one in found if one is not None]
    return frozenset().union(*known) if len(known) == len(found) else None
