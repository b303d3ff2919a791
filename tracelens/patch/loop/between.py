"""Whether results may wait while a loop runs over a generator that shows them: `metric_logger.log_every(loader, 10)`.

In: the facts of a loop, and the object whose method the loop runs over. Out: `Looks`, after which batches what waits
has to run before the next one is asked for; raises `Blocked`. Which method it is, who else has its object, and what
the call hands it; when the method looks at the object is told by `generators`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.generators import Shown, Unproven, hands_on, shown
from tracelens.patch.code.names import dotted, rebound, walk
from tracelens.patch.effects import syntax
from tracelens.patch.effects.helper_file import RUNTIME
from tracelens.patch.effects.project import MAX_FILES, parsed
from tracelens.patch.effects.scopes import defaults
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import Blocked, head, own_nodes

_BY_HAND = say("hand it the value every N batches, where N divides its printing interval")
_BASES = words("object dict defaultdict OrderedDict")
_ON_NUMBERS = words("len int float round abs min max bool")

Methods = dict[str, tuple[tuple[ast.ClassDef | None, ast.FunctionDef], ...]]


@dataclass(frozen=True)
class Looks:
    """After which batches a generator looks at the results. `given`: what it needs for that, as the call hands it."""

    function: str
    place: str
    counter: str
    given: tuple[tuple[str, str], ...]
    condition: str
    lines: tuple[tuple[int, int], ...]
    """Where it looks at them: the first and last lines of statements of its file."""


def looks(facts: LoopFacts, seen: str) -> Looks:
    """When the iterator of the loop looks at its object `seen`; raises `Blocked`."""
    call = _generator_call(head(facts.loop))
    obstacle = say("the loop runs over `{seen}`, which can show the results between two batches", seen=seen)
    if call is None or dotted(call.func).rpartition(".")[0] != seen:
        raise Blocked(facts.loop, obstacle, _BY_HAND)
    method = dotted(call.func).rpartition(".")[2]
    try:
        owner, function, place = _definition(facts, method)
        _check_object(facts, seen, owner, place)
        _check_class(facts, method, owner)
        found = shown(function)
        given = _given(facts, call, function, found)
    except Unproven as error:
        told = say("{obstacle}: `{method}` {why}", obstacle=obstacle, method=method, why=error.reason)
        raise Blocked(facts.loop, told, _BY_HAND) from None
    return Looks(method, place, found.counter, given, found.condition, found.lines)


def _generator_call(iterated: cst.BaseExpression) -> cst.Call | None:
    """`meters.log_every(…)`, also within `enumerate(…)`: each pass of the loop is one of the generator's."""
    while isinstance(iterated, cst.Call) and dotted(iterated.func) == "enumerate" and iterated.args:
        iterated = iterated.args[0].value
    return iterated if isinstance(iterated, cst.Call) else None


def _definition(facts: LoopFacts, method: str) -> tuple[ast.ClassDef, ast.FunctionDef, str]:
    """The one method of that name in the project, its class, and where it stands."""
    found = [
        (owner, function, f"{shown_as}:{function.lineno}")
        for shown_as, text in _files(facts)
        for owner, function in _methods(text).get(method, ())
    ]
    if not found:
        raise Unproven(say("is not in a file of the project"))
    owner, function, place = found[0]
    if len(found) > 1 or owner is None:
        raise Unproven(say("is defined more than once, or outside of a class"))
    return owner, function, place


def _files(facts: LoopFacts) -> Iterator[tuple[str, str]]:
    source = facts.source
    yield source.shown, source.text
    project = source.project
    found = (project.file(path) for path in project.imported(source.path))
    yield from ((file.shown, file.text) for file in found if file is not None)


@lru_cache(maxsize=MAX_FILES)
def _methods(text: str) -> Methods:
    tree = parsed(text)
    if tree is None:
        return {}
    owners = {id(part): node for node in syntax.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    out: Methods = {}
    for node in syntax.walk(tree):
        if isinstance(node, ast.FunctionDef):
            out[node.name] = (*out.get(node.name, ()), (owners.get(id(node)), node))
    return out


def _check_object(facts: LoopFacts, name: str, owner: ast.ClassDef, place: str) -> None:
    """The object is one of that class, made in the loop's own function."""
    scope, makers = facts.scope, set[str]()
    for node in own_nodes(scope):
        if isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)) and name in rebound(node):
            made = node.value if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
            makers.add(facts.names.qualified(made.func) if isinstance(made, cst.Call) else "")
    parameters = walk(scope.params) if isinstance(scope, cst.FunctionDef) else ()
    handed = any(isinstance(part, cst.Param) and part.name.value == name for part in parameters)
    if handed or not makers or name in facts.varying or not all(_means(facts, full, owner, place) for full in makers):
        raise Unproven(say("belongs to an object that was made elsewhere"))


def _means(facts: LoopFacts, full: str, owner: ast.ClassDef, place: str) -> bool:
    """Whether a name such as `util.misc.MetricLogger` is that of the class, and of no other of the same name."""
    module, _, name = full.rpartition(".")
    file = place.rpartition(":")[0]
    if not module:
        return name == owner.name and file == facts.source.shown
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    wanted = [part for part in module.split(".") if part]
    return name == owner.name and parts[-len(wanted) :] == wanted if wanted else False


def _check_class(facts: LoopFacts, method: str, owner: ast.ClassDef) -> None:
    """The method is not replaced, and no other of the class hands the object on."""
    text = facts.source.project_text
    if any(written in text for written in (f".{method} =", f".{method}=", f'"{method}"', f"'{method}'")):
        raise Unproven(say("is replaced by another function"))
    if owner.decorator_list or owner.keywords or any(ast.unparse(base) not in _BASES for base in owner.bases):
        raise Unproven(say("belongs to a class that has a part of another, which could hand the object on"))
    for part in owner.body:
        if isinstance(part, ast.FunctionDef) and part.name != method and hands_on(part):
            raise Unproven(say("belongs to a class whose `{name}` hands the object on", name=part.name))


def _given(facts: LoopFacts, call: cst.Call, function: ast.FunctionDef, found: Shown) -> tuple[tuple[str, str], ...]:
    """The parameters that the condition needs, with the text of what they are handed here; each is evaluated again."""
    arguments = function.args
    ordered = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    constants = ((one.arg, default) for one, default in defaults(arguments) if isinstance(default, ast.Constant))
    handed = {name: repr(default.value) for name, default in constants}
    for position, argument in enumerate(call.args, 1):
        if argument.star or (argument.keyword is None and position >= len(ordered)):
            raise Unproven(say("gets arguments that are hidden in `*` or `**`"))
        name = argument.keyword.value if argument.keyword is not None else ordered[position]
        value = _unwrapped(argument.value)
        if name in found.needs and not _evaluates_again(facts, value):
            raise Unproven(say("gets a `{name}` that may be another one when it is evaluated again", name=name))
        handed[name] = facts.source.code(value)
    if found.needs - set(handed):
        raise Unproven(say("has parameters whose values cannot be told"))
    if "len" in found.condition and ("len" in facts.names.functions or "len" in facts.names.imports):
        raise Unproven(say("needs a `len` that means something else here"))
    return tuple((name, handed[name]) for name in handed if name in found.needs)


def _unwrapped(value: cst.BaseExpression) -> cst.BaseExpression:
    """`loader` of `tracelens_runtime.prefetch(loader, device)`, which has the length of its loader."""
    wrapped = isinstance(value, cst.Call) and dotted(value.func) == f"{RUNTIME}.prefetch" and value.args
    return value.args[0].value if wrapped and isinstance(value, cst.Call) else value


def _evaluates_again(facts: LoopFacts, node: cst.BaseExpression) -> bool:
    """Names, attributes, numbers and what Python's own functions compute of them: nothing that is used up."""
    for part in walk(node):
        if isinstance(part, cst.Call):
            full = facts.names.qualified(part.func)
            if full not in _ON_NUMBERS or not is_pure(full) or full in facts.names.functions:
                return False
        if isinstance(part, (cst.Await, cst.Yield, cst.NamedExpr, cst.BaseComp, cst.Lambda)):
            return False
        if isinstance(part, cst.Attribute) and facts.behind(part).changed:
            return False
    return True
