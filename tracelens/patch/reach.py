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

from tracelens.patch.loops import own_nodes
from tracelens.patch.names import (
    OUTPUT,
    FileNames,
    dotted,
    is_output,
    key,
    rebound,
    root_key,
    targets,
    variables,
    walk,
    words,
    written,
)
from tracelens.patch.source import PARSED_FILES

SETTINGS = words("args opt opts cfg config conf params hparams hps hp flags FLAGS options settings")
"""Names whose attributes a training script reads and a helper that receives them seldom changes."""

_ITERATES = words("__iter__ __next__ __getitem__ collate_fn")
_CALLED = words("forward __call__")
_OF_A_LIBRARY = words("step backward zero_grad to cuda item detach append extend get items keys values size")
"""Methods of tensors, optimizers and containers: a function of that name in the file is seldom what is called."""
_BUILTIN = words(
    "print len float int str bool round abs min max sum format repr list tuple dict set sorted zip enumerate range"
)
"""Functions of Python's own: they call no model."""
_PROPERTIES = words("property cached_property functools.cached_property")
_CHANCE = re.compile(r"random\.|numpy\.random\.|torch\.(rand|bernoulli|multinomial|normal)")


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
            waiting += [(inner, own and on_self) for inner, on_self in _called(function.body, names)]
    if not known:
        return NOTHING
    local, inside = _own_scope(scope)
    seen, changed, draws = set[str](), set[str](), False
    for function, own in known.values():
        one, hidden = _of(function, own, names), frozenset[str]() if id(function) in inside else local
        seen |= one.seen - hidden
        changed |= one.changed - hidden
        draws = draws or one.draws
    return Reach(frozenset(seen), frozenset(changed), draws)


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


def _called(node: cst.CSTNode, names: FileNames) -> Iterator[tuple[cst.FunctionDef, bool]]:
    """The functions of the file that a piece of code may call, and whether it does so on `self`."""
    for part in walk(node):
        if isinstance(part, cst.Call):
            yield from _of_call(part.func, names)
        elif isinstance(part, cst.Attribute):
            on_self = dotted(part.value) in ("self", "cls")
            yield from ((f, on_self) for f in names.functions.get(part.attr.value, ()) if _is_property(f))


def _of_call(called: cst.BaseExpression, names: FileNames) -> Iterator[tuple[cst.FunctionDef, bool]]:
    if isinstance(called, cst.Attribute):
        name, on_self = called.attr.value, dotted(called.value) in ("self", "cls")
        if (name in _OF_A_LIBRARY and not on_self) or names.is_library(root_key(called.value) or ""):
            return
        definitions = names.functions.get(name, ())
        yield from ((function, on_self) for function in definitions)
        if not on_self or definitions:
            return
    elif isinstance(called, cst.Name):
        definitions = names.functions.get(called.value, ())
        yield from ((function, True) for function in definitions)
        if definitions or called.value in names.imports or called.value in _BUILTIN:
            return
    else:
        return
    yield from ((function, False) for name in _CALLED for function in names.functions.get(name, ()))


@lru_cache(maxsize=512)
def _of(function: cst.FunctionDef, own: bool, names: FileNames) -> Reach:
    mine = own_names(function)
    seen = {key(variable) for variable in variables(function)}
    changed: set[str] = set()
    draws = False
    for part in walk(function.body):
        if isinstance(part, (cst.BaseSmallStatement, cst.For, cst.With)):
            changed |= written(part, names)
            changed |= {root for t in targets(part) if (root := root_key(t)) in SETTINGS}
        if isinstance(part, cst.Call):
            draws = draws or bool(_CHANCE.match(names.qualified(part.func)))
            if is_output(part, names):
                seen.add(OUTPUT)
    settings = changed & SETTINGS
    return Reach(_outside(seen - mine, own), _outside(changed - mine, own) | settings, draws)


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


def _is_property(function: cst.FunctionDef) -> bool:
    return any(dotted(decorator.decorator) in _PROPERTIES for decorator in function.decorators)
