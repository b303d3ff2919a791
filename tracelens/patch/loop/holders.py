"""Which objects of a loop's surroundings are one, or hold one another: aliases, wrappers, containers, closures.

In: a parsed file and a loop. Out: `Holder` values, from which `LoopFacts` answers who else sees what a statement
changes. Flow-insensitive: what ever held an object holds it for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import WHOLE_SELF, dotted, key, rebound, root_key, targets, touched, variables, walk
from tracelens.patch.code.outside import BESIDES, OUTPUT, STREAMS, words
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.loop import given
from tracelens.patch.loop.loops import BUILTINS, Loop, Scope, own_nodes
from tracelens.patch.loop.reach import SETTINGS, own_names, seen_by

MAKES_STORAGE = words(
    "list dict set deque collections.deque defaultdict collections.defaultdict OrderedDict collections.OrderedDict"
    " Counter collections.Counter open io.StringIO numpy.zeros numpy.empty numpy.ones numpy.full numpy.array"
    " torch.zeros torch.empty torch.ones torch.full torch.tensor"
)
_METERS = re.compile(r"Meter|Metric|Averager?$|SmoothedValue|Tracker|History|Accumulator")
_FIGURES = words("avg average global_avg")
"""Attributes that are a number in every meter: who was given `meter.avg` does not have the meter."""
_TAKES_IN = words("update add append push put log write track record")
_HOOKS = re.compile(r"register_((forward|full_backward|backward|module|post|comm)\w*_)?hook|append|add|update")
"""A function that is handed over in another way seldom prints between two batches."""
_DISPLAYS = (cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp)


@dataclass(frozen=True)
class Holder:
    """`bound` are names of an object, `inside` what it was given; `same`: all of them are one object.

    `closure` are variables that a function among them looks at whenever it is called.
    """

    bound: frozenset[str]
    inside: frozenset[str]
    same: bool = False
    closure: frozenset[str] = frozenset()


def find(source: SourceFile, loop: Loop, scope: Scope, leaves: Sequence[cst.CSTNode]) -> tuple[Holder, ...]:
    """The holders around a loop. Of its own statements (`leaves`) those count that name a part of an object."""
    within = {id(leaf) for leaf in leaves}
    found = [holder for node in own_nodes(scope) for holder in _of(source, node, id(node) in within)]
    around = (node for node in source.ancestors(loop) if isinstance(node, cst.For))
    found += [holder for node in around for holder in _passes(source, node)]
    found += _parameters(source, scope)
    if isinstance(scope, cst.FunctionDef):
        found += _of_class(source, scope)
        found += _outside(source, scope)
    found += _one_of_a_class(source)
    return (*found, *_given(source, loop))


def _given(source: SourceFile, loop: Loop) -> Iterator[Holder]:
    """Objects that use another one, with it where the loop calls it, and with one another where they share it.

    What the loop only reads, such as settings and numbers, is nobody's result.
    """
    calls = [node.func for node in walk(loop.body) if isinstance(node, cst.Call)]
    stepped = {root_key(f.value) for f in calls if isinstance(f, cst.Attribute) and f.attr.value == "step"}
    called = {root_key(func.value if isinstance(func, cst.Attribute) else func) for func in calls}  # also `model(x)`
    sharing: dict[str, set[str]] = {}
    for who, whom in given.pairs(source):
        if whom.removeprefix("self.") not in SETTINGS or whom in stepped:  # `opt` may be either
            sharing.setdefault(whom, set()).add(who)
    for whom, users in sharing.items():
        objects = frozenset(users | ({whom} if whom in called else set()))
        if len(objects) > 1:
            yield Holder(objects, objects, True)


def storage(source: SourceFile, scope: Scope) -> frozenset[str]:
    """Names of lists, dicts, files and arrays: a wrapper that is given one writes into it."""
    return _stored(source, scope) | _stored(source, source.module) | {OUTPUT}


@lru_cache(maxsize=4 * PARSED_FILES)
def _stored(source: SourceFile, scope: Scope) -> frozenset[str]:
    out = set[str]()
    for node in own_nodes(scope):
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and node.value is not None and _stores(source, node.value):
            out |= {found for target in targets(node) if (found := root_key(target)) is not None}
    return frozenset(out)


def _stores(source: SourceFile, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Call):
        full = source.names.qualified(value.func)
        return full in MAKES_STORAGE or _is_meter(source, full)
    return isinstance(value, _DISPLAYS)


def _is_meter(source: SourceFile, full: str) -> bool:
    """Whether a class takes in values: what holds one of its objects hands them on."""
    made = source.names.classes.get(full)
    if made is None:
        return bool(_METERS.search(full.rpartition(".")[2]))
    return any(isinstance(part, cst.FunctionDef) and part.name.value in _TAKES_IN for part in made.body.body)


def _of(source: SourceFile, node: cst.CSTNode, within: bool) -> Iterator[Holder]:
    if isinstance(node, cst.Assign):
        for target in node.targets:
            yield from _pairs(source, target.target, node.value, within, len(node.targets) > 1)
        if len(node.targets) > 1 and not _constant(node.value):
            names = frozenset(root for target in targets(node) if (root := root_key(target)) is not None)
            yield Holder(names, names, True)
    elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)) and node.value is not None:
        yield from _pairs(source, node.target, node.value, within)
    elif isinstance(node, cst.With) and not within:
        for item in node.items:
            if item.asname is not None:
                yield from _pairs(source, item.asname.name, item.item, within)
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and not within:
        owner = root_key(node.value.func.value) if isinstance(node.value.func, cst.Attribute) else None
        if owner is not None and not source.names.is_library(owner):
            for argument in node.value.args:
                inside, closure = _objects(source, argument.value)
                hooked = bool(_HOOKS.fullmatch(dotted(node.value.func).rpartition(".")[2]))
                kept = isinstance(argument.value, cst.Name) and bool(_own_classes(source, owner))
                yield Holder(frozenset({owner}), inside, kept, closure if hooked else closure - {OUTPUT})


def _own_classes(source: SourceFile, name: str) -> frozenset[str]:
    """The classes of the project that an object is made of."""
    made = frozenset(maker.rpartition(".")[2] for maker in source.names.makers.get(name, ()))
    return made & (set(source.names.classes) | set(source.names.elsewhere))


def _one_of_a_class(source: SourceFile) -> Iterator[Holder]:
    """Objects of a class that decides itself what a new object is: all may be one."""
    for name, made in source.names.classes.items():
        parts = {node.value for node in walk(made) if isinstance(node, cst.Name)}
        if parts & {"__new__", "__dict__"}:
            same = frozenset(key for key in source.names.makers if name in _own_classes(source, key))
            if len(same) > 1:
                yield Holder(same, same, True)


def _pairs(
    source: SourceFile, target: cst.BaseExpression, value: cst.BaseExpression, within: bool, together: bool = False
) -> Iterator[Holder]:
    """One holder for each name of `a, b = x, y`; else one for all."""
    if _constant(value):
        return
    names = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
    values = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
    if names and len(names) == len(values):
        for one, other in zip(names, values, strict=True):
            yield from _pairs(source, one.value, other.value, within, together)
        return
    parts = [element.value for element in names] or [target]
    bound = frozenset(root for part in parts if (root := root_key(part)) is not None)
    plain = isinstance(value, (cst.Name, cst.Attribute, cst.Subscript))
    stored = not isinstance(target, cst.Name) and not names
    if not within or (plain and not stored):
        inside, closure = _objects(source, value)
        made = isinstance(value, cst.Call) and source.names.qualified(value.func) != "functools.partial"
        yield Holder(bound, inside, plain or together, closure - {OUTPUT} if made else closure)


def _passes(source: SourceFile, loop: cst.For) -> Iterator[Holder]:
    """What the loop variables of a loop around this one are: parts of what it runs over."""
    head, target = loop.iter, loop.target
    called = dotted(head.func) if isinstance(head, cst.Call) else ""
    parts = target.elements if isinstance(target, cst.Tuple) else ()
    if isinstance(head, cst.Call) and called == "zip" and len(parts) == len(head.args):
        for part, argument in zip(parts, head.args, strict=True):
            yield Holder(_roots(part.value), _objects(source, argument.value)[0], True)
    elif called != "range":
        skipped = parts[1:] if called == "enumerate" and len(parts) > 1 else None
        bound = frozenset().union(*(_roots(part.value) for part in skipped)) if skipped else _roots(target)
        yield Holder(bound, _objects(source, head)[0], True)


def _outside(source: SourceFile, scope: cst.FunctionDef) -> Iterator[Holder]:
    """What the file itself, and the functions around this one, say of their own objects."""
    local = frozenset(own_names(scope))
    outer = (a for a in source.ancestors(scope) if isinstance(a, (cst.FunctionDef, cst.Module)))
    for around in {id(one): one for one in (*outer, source.module)}.values():
        for one in _said(source, around):
            inside, closure = _as_seen(one.inside, local), _as_seen(one.closure, local)
            yield Holder(_as_seen(one.bound, local), inside, one.same, closure)


@lru_cache(maxsize=4 * PARSED_FILES)
def _said(source: SourceFile, around: cst.FunctionDef | cst.Module) -> tuple[Holder, ...]:
    """The holders of a function or file, for the loops of all functions in it."""
    return tuple(one for node in own_nodes(around) for one in _of(source, node, False))


def _as_seen(keys: frozenset[str], local: frozenset[str]) -> frozenset[str]:
    """An object whose name means something else here gets a key of its own."""
    return frozenset(f"{name}@" if name in local else name for name in keys)


def _parameters(source: SourceFile, scope: Scope) -> Iterator[Holder]:
    """What the file's own calls hand to the loop's function: two parameters, or a global, may be one object."""
    if isinstance(scope, cst.FunctionDef):
        local = own_names(scope) | {p.name.value for p in walk(scope.params) if isinstance(p, cst.Param)}
        yield from _handed(source, scope, scope.name.value, local)


def _handed(source: SourceFile, function: cst.FunctionDef, called: str, local: set[str]) -> Iterator[Holder]:
    names = [parameter.name.value for parameter in function.params.params]
    bare = names[1:] if names[:1] in (["self"], ["cls"]) else names
    for call in source.calls.get(called, ()):
        for position, argument in enumerate(call.args):
            named = argument.keyword.value if argument.keyword is not None else ""
            name = named or (bare[position] if position < len(bare) and not argument.star else "")
            given = root_key(argument.value) if isinstance(argument.value, (cst.Name, cst.Attribute)) else None
            if name and given is not None and given != name:
                # a name that means something else here stands for the object all the same: it gets a key of its own
                shared = f"{given}@" if given in local and not given.startswith("self.") else given
                yield Holder(frozenset({name}), frozenset({shared}), True)


def _of_class(source: SourceFile, scope: cst.FunctionDef) -> Iterator[Holder]:
    """What the object of a method was made of (`self.log = log`), and who else was given the object itself."""
    parents = source.ancestors(scope)
    definition = next((node for node in parents if isinstance(node, cst.ClassDef)), None)
    if definition is None:
        return
    for part in definition.body.body:
        if isinstance(part, cst.FunctionDef) and part.name.value == "__init__":
            yield from _made_of(source, part, definition.name.value)
    for node in walk(definition.body):
        if isinstance(node, (cst.Assign, cst.Expr)):
            yield from _given_self(source, node)
    yield Holder(frozenset({definition.name.value}), frozenset({"self"}), True)
    for node in own_nodes(source.module):
        made = node.value if isinstance(node, cst.Assign) else None
        if isinstance(made, cst.Call) and dotted(made.func) == definition.name.value:
            yield Holder(rebound(node), frozenset({"self"}), True)


def _made_of(source: SourceFile, init: cst.FunctionDef, name: str) -> Iterator[Holder]:
    yield from _handed(source, init, name, set())
    parameters = {parameter.name.value for parameter in init.params.params}
    for node in own_nodes(init):
        if isinstance(node, cst.Assign) and isinstance(node.value, cst.Name) and node.value.value in parameters:
            for target in targets(node):
                found = root_key(target)
                if found is not None:
                    yield Holder(frozenset({found}), frozenset({node.value.value}), True)


def _given_self(source: SourceFile, node: cst.Assign | cst.Expr) -> Iterator[Holder]:
    """`self.callback = Callback(self)`, `self.hooks = [self.report]`, `model.register_hook(self.report)`."""
    value = node.value
    called = {id(part.func) for part in walk(value) if isinstance(part, cst.Call)}
    harmless = {id(a.value) for p in walk(value) if isinstance(p, cst.Call) and _keeps_nothing(p) for a in p.args}
    for part in variables(value):
        bare = isinstance(part, cst.Name) and part.value == "self"
        method = isinstance(part, cst.Attribute) and part.attr.value in source.names.functions
        if (bare or method) and id(part) not in called | harmless:
            if isinstance(node, cst.Assign):
                bound = frozenset(root for t in targets(node) if (root := root_key(t)) is not None)
            else:
                func = value.func if isinstance(value, cst.Call) else value
                bound = frozenset({root_key(func) or ""}) - {""}
            yield Holder(bound, frozenset({"self"}), True)


def _keeps_nothing(call: cst.Call) -> bool:
    name = dotted(call.func).rpartition(".")[2]
    return name in words(
        "isinstance super type id len str repr print vars getattr hasattr setattr __init__ __setattr__"
    )


def _objects(source: SourceFile, expression: cst.CSTNode) -> tuple[frozenset[str], frozenset[str]]:
    """The objects that an expression is made of, and the variables that functions among them look at."""
    names = source.names
    known = set(names.imports) | set(names.functions) | BUILTINS
    # a plain `other = meter.avg` is one object by two names, whatever its type
    skipped = {id(part) for n in walk(expression) if n is not expression and _is_number(n) for part in walk(n)}
    parts = [v for v in variables(expression) if id(v) not in skipped]
    lines = any(names.qualified(n) in STREAMS for n in walk(expression) if isinstance(n, cst.Attribute))
    called = {id(n.func) for n in walk(expression) if isinstance(n, cst.Call)}
    closure: set[str] = set()
    for part in parts:
        name = part.value if isinstance(part, cst.Name) else part.attr.value
        if name in names.functions and id(part) not in called:
            closure |= seen_by(name, names)
    for node in walk(expression):
        if isinstance(node, cst.Lambda):
            closure |= {key(v) for v in variables(node.body)} | (touched(node.body, names) & BESIDES)
    objects = frozenset(key(v) for v in parts) - known
    return objects | (frozenset({OUTPUT}) if lines else frozenset()), frozenset(closure - known)


def _roots(target: cst.CSTNode) -> frozenset[str]:
    return frozenset(key(v) for v in variables(target))


def _constant(value: cst.BaseExpression) -> bool:
    return isinstance(value, (cst.BaseNumber, cst.BaseString)) or dotted(value) == "None"


def _is_number(node: cst.CSTNode) -> bool:
    """`len(losses)`, `losses.avg`."""
    if isinstance(node, cst.Attribute):
        return node.attr.value in _FIGURES and isinstance(node.value, cst.Name) and node.value.value not in WHOLE_SELF
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "len"
