"""A statement in a helper function that the training loop calls: how the helper is told when it is due.

In: a statement and its file. Out: the `Helper` with its calls in the loop, or `Blocked`. The helper gets one more
parameter, with True for everybody else; the loop says when the statement is due. Apart from the recipe because finding
the calls is about the file, and not about what is made rarer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import Blocked, training_loop
from tracelens.patch.recipes.arguments import with_argument

PARAMETER = "due"
BY_HAND = "give the function an argument that says when the call is due, or take the call out of it"
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


@dataclass(frozen=True)
class Helper:
    """A function of this file, and its calls in one training loop."""

    function: cst.FunctionDef
    loop: cst.For
    calls: tuple[cst.Call, ...]
    parameter: str

    def splices(self, source: SourceFile, test: str) -> Iterator[Splice]:
        """The parameter, and the argument of each call: `test` says when the statement is due."""
        parameters = [*self.function.params.params, *self.function.params.kwonly_params]
        if parameters:
            last = parameters[-1]
            _, end = source.outer_span(last.default or (last.annotation and last.annotation.annotation) or last.name)
            yield Splice(end, end, f", {self.parameter}=True")
        else:
            _, end = source.span(self.function.name)
            opening = source.text.index("(", end) + 1
            yield Splice(opening, opening, f"{self.parameter}=True")
        for call in self.calls:
            yield with_argument(source, call, f"{self.parameter}={test}")


def helper_of(source: SourceFile, statement: cst.CSTNode) -> Helper:
    """The helper that a statement is in; raises `Blocked` where its calls cannot be told."""
    function = next((above for above in source.ancestors(statement) if isinstance(above, cst.FunctionDef)), None)
    if function is None:
        raise Blocked(statement, "it is not in a loop of its own function", "move it into the training loop")
    _check_plain(source, statement, function)
    name, loops = function.name.value, {}
    mine = []
    for call in _calls(source, function):
        loop = _loop_of(source, call)
        if loop is not None:
            loops[id(loop)] = loop
            mine.append(call)
    if not mine:
        raise Blocked(statement, f"nothing calls `{name}` in a training loop of this file", BY_HAND)
    if len(loops) > 1:
        raise Blocked(statement, f"two training loops call `{name}`", BY_HAND)
    (loop,) = loops.values()
    return Helper(function, loop, tuple(mine), _unused(source))


def _check_plain(source: SourceFile, statement: cst.CSTNode, function: cst.FunctionDef) -> None:
    """Raise `Blocked` unless it is a function of the module that takes what it names and nothing else."""
    name = function.name.value
    if any(isinstance(above, (cst.ClassDef, cst.FunctionDef)) for above in source.ancestors(function)):
        where = (
            "a method" if any(isinstance(a, cst.ClassDef) for a in source.ancestors(function)) else "an inner function"
        )
        raise Blocked(statement, f"it is in {where}, whose calls are not told", BY_HAND)
    if function.decorators or function.asynchronous is not None:
        raise Blocked(statement, f"`{name}` is decorated or asynchronous", BY_HAND)
    if isinstance(function.params.star_arg, cst.Param) or function.params.star_kwarg is not None:
        raise Blocked(statement, f"`{name}` takes `*` or `**`", BY_HAND)
    if function.params.posonly_params or any(isinstance(node, (cst.Yield, cst.Await)) for node in walk(function)):
        raise Blocked(statement, f"`{name}` has positional parameters only, or is a generator", BY_HAND)


def _calls(source: SourceFile, function: cst.FunctionDef) -> Iterator[cst.Call]:
    """The calls of a function by its name; raises `Blocked` where the name is used in another way."""
    name = function.name.value
    for node in walk(source.module):
        if not isinstance(node, cst.Name) or node.value != name or node is function.name:
            continue
        parent = source.parent(node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        if not (isinstance(parent, cst.Call) and parent.func is node):
            raise Blocked(function, f"`{name}` is used as a value, or bound again", BY_HAND)
        if any(argument.star for argument in parent.args):
            raise Blocked(function, f"`{name}` is called with `*` or `**`", BY_HAND)
        yield parent


def _loop_of(source: SourceFile, call: cst.Call) -> cst.For | None:
    """The training loop that makes the call in its own body; None outside of loops."""
    try:
        loop = training_loop(source, call)
    except Blocked:
        return None
    if not isinstance(loop, cst.For):
        raise Blocked(loop, "the training loop is a while loop, whose batches nothing counts", BY_HAND)
    for above in source.ancestors(call):
        if above is loop:
            break
        if isinstance(above, _COMPREHENSIONS):
            raise Blocked(call, f"`{source.code(call.func)}` is called in a comprehension", BY_HAND)
    in_head = not any(above is loop.body for above in source.ancestors(call))
    return None if in_head else loop


def _unused(source: SourceFile) -> str:
    name, number = PARAMETER, 2
    while name in source.identifiers:
        name, number = f"{PARAMETER}_{number}", number + 1
    return name
