"""What the functions of a file look at and change behind a call: sums in globals, lines, random numbers.

In: a piece of code and the names of its file. Out: `Reach`. Functions are found by the last part of the name alone,
so a method counts for every object that could have it; what they see of `self` counts only for calls on `self`.
Apart from names.py because that looks at the text of one statement, and this follows its calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from tracelens.patch.code import elsewhere
from tracelens.patch.code.names import (
    FileNames,
    dotted,
    is_property,
    key,
    rebound,
    root_key,
    targets,
    touched,
    variables,
    walk,
    written,
)
from tracelens.patch.code.outside import BESIDES, FILES, OUTPUT, words
from tracelens.patch.code.source import PARSED_FILES
from tracelens.patch.loop.loops import own_nodes

SETTINGS = words("args opt opts cfg config conf params hparams hps hp flags FLAGS options settings")
"""Names whose attributes a training script reads and a helper that receives them seldom changes."""

_ITERATES = words("__iter__ __next__ __getitem__ collate_fn")
_PASSES = words("__iter__ __next__")
_CALLED = words("forward __call__")
_OF_A_LIBRARY = words("step backward zero_grad to cuda item detach append extend get items keys values size")
"""Methods of tensors, optimizers and containers: a function of that name in the file is seldom what is called."""
_STEPS = words("step zero_grad")
_MAKES = words("__init__ __new__ __post_init__")
_OF_ITEMS = words("__setitem__ __delitem__")
_OF_ATTRIBUTES = words("__setattr__ __delattr__")
_IN_PLACE = words("__iadd__ __isub__ __imul__ __itruediv__")
_OF_HANDLERS = words("filter format emit")
_BUILTIN = words(
    "print len float int str bool round abs min max sum format repr list tuple dict set sorted zip enumerate range"
)
"""Functions of Python's own: they call no model."""
_CHANCE = re.compile(r"random\.|numpy\.random\.|torch\.(rand|bernoulli|multinomial|normal)")
_PLAIN_BASES = words("object ABC abc.ABC Exception dict list str int float tuple set enum.Enum typing.NamedTuple")
_OF_BLOCKS = words("__enter__ __exit__ __aenter__ __aexit__")


@dataclass(frozen=True)
class Reach:
    """`seen` and `changed` are keys that the functions take from outside; `draws`: they use random numbers."""

    seen: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    draws: bool = False


NOTHING = Reach()


def reach(node: cst.CSTNode, names: FileNames, scope: cst.CSTNode, iterates: bool = False) -> Reach:
    """What the calls in `node` reach; `iterates`: the node is also gone through, as the head of a loop is."""
    waiting = list(_called(node, names))
    if iterates:
        waiting += [(function, False) for name in _ITERATES for function in names.functions.get(name, ())]
    known: dict[tuple[int, bool], tuple[cst.FunctionDef, bool]] = {}
    while waiting:
        function, own = waiting.pop()
        if (id(function), own) not in known and function is not scope:
            known[id(function), own] = (function, own)
            waiting += [(inner, own and on_self) for inner, on_self in _called_by(function, names)]
    local, inside = _own_scope(scope)
    seen, changed, draws = set[str](), set[str](), False
    for function, own in known.values():
        one, hidden = _of(function, own, names), frozenset[str]() if id(function) in inside else local
        seen |= one.seen - hidden
        changed |= one.changed - hidden
        draws = draws or one.draws
    outer = _in_other_files(node, list(known.values()), names)
    for name in _ITERATES if iterates else ():
        prints = _foreign(name, names).looks & BESIDES
        outer = Reach(outer.seen | prints, outer.changed, outer.draws)
    if not known and outer == NOTHING:
        return NOTHING
    return Reach(frozenset(seen) | outer.seen, frozenset(changed) | outer.changed, draws or outer.draws)


def _in_other_files(node: cst.CSTNode, functions: list[tuple[cst.FunctionDef, bool]], names: FileNames) -> Reach:
    """What is reached in the project's other files; a method of a base class that cannot be found may see all."""
    unknown_base = _has_unknown_base(names)
    if not names.elsewhere and not unknown_base:
        return NOTHING
    called = set(_named_in(node, names))
    for function, own in functions:
        called |= {(name, on_self and own) for name, on_self in _named_by(function, names)}
    out, seen, changed = elsewhere.Foreign(), set[str](), set[str]()
    for name, on_self in called:
        one = _foreign(name, names)
        seen |= {look for look in one.looks if on_self or not look.startswith("self.")}
        seen |= one.uses & set(names.imports)
        changed |= (one.settings & SETTINGS) | (one.looks & {OUTPUT, FILES})
        changed |= {look for look in one.looks if on_self and look.startswith("self.")}
        out = one if one.draws else out
        stored = f"self.{name}" in names.attributes or f"self.{name}" in names.elsewhere
        if on_self and unknown_base and name not in names.elsewhere and not stored:
            seen.add("self")
    return Reach(frozenset(seen), frozenset(changed), out.draws)


@lru_cache(maxsize=4096)
def _foreign(name: str, names: FileNames) -> elsewhere.Foreign:
    unnamed = name in _CALLED | _ITERATES or name == elsewhere.OWN_STEP
    return elsewhere.reached([name], names.elsewhere, surely=unnamed)


@lru_cache(maxsize=4096)
def _named_by(function: cst.FunctionDef, names: FileNames) -> tuple[tuple[str, bool], ...]:
    return tuple(_named_in(function.body, names))


def _named_in(node: cst.CSTNode, names: FileNames) -> Iterator[tuple[str, bool]]:
    """The last names of what is called and is not of this file, and whether it is called on `self`."""
    for call in walk(node):
        name = _last_name(call.func, names) if isinstance(call, cst.Call) else ""
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "step":
            yield elsewhere.OWN_STEP, False
        for owner, name_of_it in _special(call):
            if _classes_of(owner, names) & set(names.elsewhere):
                yield name_of_it, False
        if not isinstance(call, cst.Call) or not name or name in names.functions:
            continue
        yield name, dotted(call.func) in (f"self.{name}", f"cls.{name}")
        plain = isinstance(call.func, cst.Name) and call.func.value not in names.imports and name not in _BUILTIN
        if (
            plain or f"self.{name}" == dotted(call.func)
        ) and name not in names.elsewhere:  # `model(x)`, `self.model(x)`
            yield from ((one, False) for one in _CALLED)


def _last_name(called: cst.BaseExpression, names: FileNames) -> str:
    if isinstance(called, cst.Attribute):
        on_self = dotted(called.value) in ("self", "cls")
        name = called.attr.value
        unlikely = name in elsewhere.OF_A_LIBRARY and not _classes_of(called.value, names) & set(names.elsewhere)
        if (unlikely and not on_self) or names.is_library(root_key(called.value) or ""):
            return ""
        return name
    return names.qualified(called).rpartition(".")[2] if isinstance(called, cst.Name) else ""


@lru_cache(maxsize=PARSED_FILES)
def _has_unknown_base(names: FileNames) -> bool:
    for definition in names.classes.values():
        for base in definition.bases:
            full = names.qualified(base.value)
            known = full in names.classes or full in _PLAIN_BASES or names.is_library(dotted(base.value).split(".")[0])
            if not known:
                return True
    return False


def hidden_uses(names: FileNames, loop: cst.CSTNode) -> Iterator[tuple[cst.FunctionDef, frozenset[str]]]:
    """Functions of the file that operators and blocks call without a name, and what each looks at from outside."""
    blocks = any(isinstance(node, cst.With) for node in walk(loop))
    for name, definitions in names.functions.items():
        special = name.startswith("__") and name.endswith("__") and name not in _MAKES | _CALLED
        if special and (blocks or name not in _OF_BLOCKS):
            yield from ((function, _of(function, False, names).seen) for function in definitions)


def shares_passes(names: FileNames, methods: frozenset[str]) -> bool:
    """Whether one of these methods, in a class of the project, and its iterator look at what the other one changes."""
    going = [_of(function, True, names) for name in _PASSES for function in names.functions.get(name, ())]
    shown = [_of(function, True, names) for name in methods for function in names.functions.get(name, ())]
    here = any(one.seen & other.changed or one.changed & other.seen for one in going for other in shown)
    around = _own_looks(_PASSES, names) & _own_looks(methods, names)
    return here or bool(around)


def _own_looks(called: frozenset[str], names: FileNames) -> frozenset[str]:
    """What the functions of these names in the project's other files look at of their own object."""
    looks = frozenset().union(*(_foreign(name, names).looks for name in called))
    return frozenset(look for look in looks if look.startswith("self."))


def seen_by(name: str, names: FileNames) -> frozenset[str]:
    """What the functions of that name look at from outside, themselves."""
    return frozenset().union(*(_of(function, True, names).seen for function in names.functions.get(name, ())))


def own_names(node: cst.CSTNode) -> set[str]:
    """Names that a function binds for itself, so that it means another thing by them."""
    out = {part.name.value for part in walk(node) if isinstance(part, cst.Param)}
    shared = {item.name.value for p in walk(node) if isinstance(p, (cst.Global, cst.Nonlocal)) for item in p.names}
    for part in walk(node):
        if isinstance(part, (cst.BaseSmallStatement, cst.For, cst.With)):
            out |= rebound(part)
        if isinstance(part, cst.CompFor):
            out |= {v.value for v in variables(part.target) if isinstance(v, cst.Name)}
    return out - shared


@lru_cache(maxsize=4096)
def _called_by(function: cst.FunctionDef, names: FileNames) -> tuple[tuple[cst.FunctionDef, bool], ...]:
    return tuple(_called(function.body, names))


def _called(node: cst.CSTNode, names: FileNames) -> Iterator[tuple[cst.FunctionDef, bool]]:
    """The functions of the file that a piece of code may call, and whether it does so on `self`."""
    for part in walk(node):
        if isinstance(part, cst.Call):
            yield from _of_call(part.func, names)
        elif isinstance(part, cst.Attribute):
            on_self = dotted(part.value) in ("self", "cls")
            yield from ((f, on_self) for f in names.functions.get(part.attr.value, ()) if is_property(f))
        for owner, name in _special(part):
            yield from ((function, False) for function in _own_methods(owner, name, names))


def _of_call(called: cst.BaseExpression, names: FileNames) -> Iterator[tuple[cst.FunctionDef, bool]]:
    if isinstance(called, cst.Attribute):
        name, on_self = called.attr.value, dotted(called.value) in ("self", "cls")
        if name in elsewhere.LOGGING:
            yield from ((function, False) for one in _OF_HANDLERS for function in names.functions.get(one, ()))
        moves = name in ("to", "cuda") and name in names.printing
        unlikely = name in _OF_A_LIBRARY and not on_self and not moves and not _own_methods(called.value, name, names)
        if unlikely or names.is_library(root_key(called.value) or ""):
            yield from ((function, False) for function in _of_trainers(name, called.value, names))
            return
        definitions = names.functions.get(name, ())
        yield from ((function, on_self) for function in definitions)
        if not on_self or definitions:
            return
    elif isinstance(called, cst.Name):
        definitions = names.functions.get(called.value, ())
        yield from ((function, True) for function in definitions)
        if called.value in names.classes:
            made = (part for part in walk(names.classes[called.value].body) if isinstance(part, cst.FunctionDef))
            yield from ((function, False) for function in made if function.name.value in _MAKES)
        if definitions or called.value in names.imports or called.value in _BUILTIN:
            return
    else:
        return
    yield from ((function, False) for name in _CALLED for function in names.functions.get(name, ()))


def _special(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, str]]:
    """The objects that a statement stores into, each with the methods that Python calls for that."""
    for target in targets(node) if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Del)) else ():
        if isinstance(target, cst.Subscript):
            yield from ((target.value, name) for name in _OF_ITEMS)
        elif isinstance(target, cst.Attribute):
            yield from ((target.value, name) for name in _OF_ATTRIBUTES)
        if isinstance(node, cst.AugAssign):
            yield from ((target, name) for name in _IN_PLACE)


def _classes_of(owner: cst.BaseExpression, names: FileNames) -> frozenset[str]:
    """What an object is made of, by the last names of what is called for it."""
    return frozenset(maker.rpartition(".")[2] for maker in names.makers.get(dotted(owner), ()))


def _own_methods(owner: cst.BaseExpression, name: str, names: FileNames) -> tuple[cst.FunctionDef, ...]:
    """The methods of that name in the classes of this file that an object is made of, or in their bases."""
    waiting, seen, found = list(_classes_of(owner, names)), set[str](), []
    while waiting:
        made = waiting.pop()
        definition = names.classes.get(made)
        if definition is None or made in seen:
            continue
        seen.add(made)
        waiting += [dotted(base.value) for base in definition.bases]
        found += [p for p in definition.body.body if isinstance(p, cst.FunctionDef) and p.name.value == name]
    return tuple(found)


def _of_trainers(name: str, owner: cst.BaseExpression, names: FileNames) -> Iterator[cst.FunctionDef]:
    """`step` of an optimizer or scheduler that the file defines, and what runs behind `loss.backward()`."""
    for definition in names.classes.values() if name in _STEPS or name == "backward" else ():
        bases = [names.qualified(base.value) for base in definition.bases]
        maker = definition.name.value in names.makers.get(dotted(owner), ())
        steps = name in _STEPS and (maker or any(elsewhere.STEPPERS.search(base) for base in bases))
        if steps or (name == "backward" and any(base.endswith("Function") for base in bases)):
            for part in definition.body.body:
                if isinstance(part, cst.FunctionDef) and part.name.value == name:
                    yield part


@lru_cache(maxsize=512)
def _of(function: cst.FunctionDef, own: bool, names: FileNames) -> Reach:
    mine = own_names(function)
    seen = {key(variable) for variable in variables(function)}
    given = (p.default for p in walk(function.params) if isinstance(p, cst.Param) and p.default is not None)
    from_outside = {key(variable) for default in given for variable in variables(default)}
    changed: set[str] = set()
    draws = False
    for part in walk(function.body):
        if isinstance(part, (cst.BaseSmallStatement, cst.For, cst.With)):
            changed |= written(part, names)
            changed |= {root for t in targets(part) if (root := root_key(t)) in SETTINGS}
        if isinstance(part, cst.Call):
            draws = draws or bool(_CHANCE.match(names.qualified(part.func)))
    settings = changed & SETTINGS
    seen = (seen - mine) | from_outside | (touched(function.body, names) & BESIDES)
    others = (n for n in walk(function.body) if isinstance(n, cst.Attribute) and dotted(n.value) not in ("self", "cls"))
    seen |= {f"*.{node.attr.value}" for node in others}
    return Reach(_outside(seen, own), _outside(changed - mine, own) | settings, draws)


def _outside(keys: set[str], own: bool) -> frozenset[str]:
    return frozenset(name for name in keys if own or not name.startswith(("self.", "cls.")))


@lru_cache(maxsize=PARSED_FILES)
def _own_scope(scope: cst.CSTNode) -> tuple[frozenset[str], frozenset[int]]:
    """The names of the loop's own function, by which others mean something else, and the functions inside it."""
    if not isinstance(scope, cst.FunctionDef):
        return frozenset(), frozenset()
    nodes = list(own_nodes(scope))
    shared = {item.name.value for n in nodes if isinstance(n, (cst.Global, cst.Nonlocal)) for item in n.names}
    names = {part.name.value for part in walk(scope.params) if isinstance(part, cst.Param)}
    for node in nodes:
        names |= rebound(node) if isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)) else frozenset()
    return frozenset(names - shared), frozenset(id(n) for n in walk(scope.body) if isinstance(n, cst.FunctionDef))
