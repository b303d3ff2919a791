"""Functions of the project that a line of a loop calls: which one it is, whether it waits for the GPU, what it starts.

In: a call and the tensors on the GPU at its place. Out: the function's file and definition, None where it cannot be
told; whether each call of it waits for a tensor that it is given; whether it gives the GPU no more than a few kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from tracelens.patch.code import formats
from tracelens.patch.code.names import dotted, last_name, walk
from tracelens.patch.code.source import SourceFile, Unreadable, parse_beside
from tracelens.patch.effects.words import words
from tracelens.patch.loop.device_values import DeviceValues
from tracelens.patch.loop.facts import is_pure, leaves_of
from tracelens.patch.recipes.project_calls import imported, module_of

MOST_CALLS = 2
"""Functions that call one another before one waits; deeper ones are not followed."""
_NO_WORK = words(
    "item tolist print update append extend write info warning debug error exit format time perf_counter isfinite"
    " isnan isinf get_scale set_postfix set_description add_scalar synchronize"
)
"""Calls that give the GPU no work, by their last name."""
_FEW_KERNELS = (
    formats.REDUCES
    | formats.CONVERTS
    | words("eq ne gt lt ge le cpu numpy to type astype detach clone size dim topk sort t expand_as unsqueeze")
    | words("get keys values items")
)
"""Calls that give it a few short kernels, which are over before the host has come to the next wait."""
_CONDITIONS = (cst.If, cst.IfExp, cst.Try, cst.BooleanOperation, cst.Lambda, cst.CompFor)


@dataclass(frozen=True)
class CalledFunction:
    """A function of the project and the file that it is in."""

    source: SourceFile
    function: cst.FunctionDef

    def given(self, call: cst.Call, values: DeviceValues) -> set[str]:
        """The parameters that a call gives a tensor on the GPU."""
        names = [one.name.value for one in self.function.params.params]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        out: set[str] = set()
        for place, argument in enumerate(call.args):
            name = argument.keyword.value if argument.keyword is not None else "".join(names[place : place + 1])
            if not argument.star and values.on_device(argument.value):
                out.add(name)
        return out - {""}


def waits(source: SourceFile, call: cst.Call, values: DeviceValues, depth: int = MOST_CALLS) -> bool:
    """Whether each call waits for one of the tensors that it is given."""
    given = any(values.on_device(argument.value) for argument in call.args)
    called = called_function(source, call) if given and depth else None
    if called is None:
        return False
    inside = DeviceValues(called.source, known=called.given(call, values))
    for leaf, found in inside.follow(leaves_of(called.function.body)):
        if any(is_certain(called.source, node, called.function) for node in found):
            return True
        small = walk(leaf) if isinstance(leaf, cst.BaseSmallStatement) else ()
        calls = (one for one in small if isinstance(one, cst.Call) and is_certain(called.source, one, called.function))
        if any(waits(called.source, one, inside, depth - 1) for one in calls):
            return True
        if any(isinstance(part, (cst.Return, cst.Raise)) for part in walk(leaf)):
            return False  # what stands further down may not be reached
    return False


def gives_little_work(source: SourceFile, call: cst.Call, depth: int = MOST_CALLS) -> bool:
    """Whether a call starts no more than a few short kernels, for all that is known."""
    if is_pure(source.names.qualified(call.func)) or last_name(call.func) in _NO_WORK | _FEW_KERNELS:
        return True
    called = called_function(source, call) if depth else None
    if called is None:
        return False
    calls = (part for part in walk(called.function.body) if isinstance(part, cst.Call))
    return all(gives_little_work(called.source, one, depth - 1) for one in calls)


def is_certain(source: SourceFile, node: cst.CSTNode, around: cst.CSTNode) -> bool:
    """Whether whoever comes by `around` comes by a place in it: no condition is in between.

    `if p.grad is not None:` is none, which holds of most parameters; other objects may be None throughout. A loop over
    a list may have no rounds, as one of callbacks.
    """
    below = node
    for ancestor in source.ancestors(node):
        if ancestor is around:
            return True
        mostly = _is_asked(ancestor, below) or _asks_for_gradient(ancestor, below)
        if isinstance(ancestor, _CONDITIONS) and not mostly:
            return False
        if isinstance(ancestor, cst.For) and below is ancestor.body and not isinstance(ancestor.iter, cst.Call):
            return False
        below = ancestor
    return False


def _is_asked(node: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether a part of a condition is what is asked first."""
    if isinstance(node, (cst.If, cst.IfExp)):
        return node.test is part
    return isinstance(node, cst.BooleanOperation) and node.left is part


def _asks_for_gradient(node: cst.CSTNode, part: cst.CSTNode) -> bool:
    test = node.test if isinstance(node, (cst.If, cst.IfExp)) and node.body is part else None
    if not isinstance(test, cst.Comparison) or not isinstance(test.left, cst.Attribute):
        return False
    asked = test.comparisons[0]
    return test.left.attr.value == "grad" and isinstance(asked.operator, cst.IsNot)


# ----------------------------------------------------------------------------------------------- which function it is


def called_function(source: SourceFile, call: cst.Call) -> CalledFunction | None:
    """The function of the project that a call is of, where its text tells."""
    function = call.func
    if isinstance(function, cst.Name):
        return function_of_name(source, function.value)
    owner, name = (function.value, function.attr.value) if isinstance(function, cst.Attribute) else (function, "")
    if dotted(owner) == "self":
        return _method(source, source.innermost(cst.ClassDef, call), name)
    path = module_of(source, owner) if dotted(owner) in source.names.imports else None
    if path is not None:
        return _in_file(source, path, name)
    makers = source.names.made_by(owner)
    return _of_maker(source, next(iter(makers)).rpartition(".")[2], name) if len(makers) == 1 else None


def _of_maker(source: SourceFile, maker: str, name: str) -> CalledFunction | None:
    """The method of an object that a class of the project makes."""
    if maker in source.names.classes:
        return _method(source, source.names.classes[maker], name)
    came = imported(source, maker)
    other = _parsed(source, came[0]) if came is not None else None
    return _method(other, other.names.classes.get(came[1]), name) if other is not None and came is not None else None


def function_of_name(source: SourceFile, name: str) -> CalledFunction | None:
    """The only function of the file that has a name, else that of the file from which the name is imported."""
    known = source.names.functions.get(name, ())
    if known:
        return CalledFunction(source, known[0]) if len(known) == 1 else None
    came = imported(source, name)
    return _in_file(source, *came) if came is not None else None


def _in_file(source: SourceFile, path: Path, name: str) -> CalledFunction | None:
    other = _parsed(source, path)
    known = other.names.functions.get(name, ()) if other is not None else ()
    return CalledFunction(other, known[0]) if other is not None and len(known) == 1 else None


def _method(source: SourceFile, owner: cst.ClassDef | None, name: str) -> CalledFunction | None:
    body = owner.body.body if owner is not None else ()
    found = [one for one in body if isinstance(one, cst.FunctionDef) and one.name.value == name]
    return CalledFunction(source, found[0]) if len(found) == 1 else None


def _parsed(source: SourceFile, path: Path) -> SourceFile | None:
    try:
        return parse_beside(source, path)
    except (Unreadable, OSError):
        return None
