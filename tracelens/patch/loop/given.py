"""Objects that were given another one when they were made, and use it: `self.meter = Meter(writer=self.writer)`.

In: a parsed file, with the project's files that can be behind its calls. Out: pairs of keys, who has whom. What is
done through the one is done to the other, so both keep the order of their calls. Apart from holders.py, which sees the
text of one file: a class is mostly in another, and only its source tells whether it uses what it was given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tracelens.patch.code import elsewhere
from tracelens.patch.code.clocked import text_of
from tracelens.patch.code.source import SourceFile


@dataclass(frozen=True)
class _Class:
    """`parameters` of its `__init__` in their order, None without one; `stored` are its attributes by parameter."""

    parameters: tuple[str, ...] | None
    stored: tuple[tuple[str, str], ...]
    used: frozenset[str]
    """Attributes that its other methods look at."""
    bases: tuple[str, ...]


@dataclass(frozen=True)
class _Made:
    """`key = name(…)`: what it was given, by position or by name."""

    key: str
    name: str
    given: tuple[tuple[int | str, str], ...]


@dataclass(frozen=True)
class _ModuleClasses:
    classes: Mapping[str, _Class]
    made: tuple[_Made, ...]


def pairs(source: SourceFile) -> frozenset[tuple[str, str]]:
    """(who, whom) by their keys. Of other files only what they store on self, as a base class does.

    What the started script makes counts by its names as well: it hands them to functions that mostly call them so too.
    """
    own, others = _read(source.data), {path: _read(path.read_bytes()) for path in source.others}
    classes = {name: one for module in (*others.values(), own) for name, one in module.classes.items()}
    made = list(own.made)
    for path, module in others.items():
        made += (one for one in module.made if path == source.entry or one.key.startswith("self."))
    return frozenset((one.key, key) for one in made for key in _used(one, classes) if key != one.key)


def _used(made: _Made, classes: Mapping[str, _Class]) -> Iterator[str]:
    """What a class was given and looks at later."""
    family = tuple(_family(made.name, classes))
    init = next((one for one in family if one.parameters is not None), None)
    if init is None or init.parameters is None:
        return
    used = frozenset().union(*(one.used for one in family))
    wanted = {parameter for parameter, attribute in init.stored if attribute in used}
    for place, key in made.given:
        name = place if isinstance(place, str) else next(iter(init.parameters[place : place + 1]), "")
        if name in wanted:
            yield key


def _family(name: str, classes: Mapping[str, _Class]) -> Iterator[_Class]:
    """A class and those it is made of, the nearest first."""
    waiting, seen = [name], set[str]()
    while waiting:
        current = waiting.pop(0)
        if current in classes and current not in seen:
            seen.add(current)
            yield classes[current]
            waiting += classes[current].bases


@lru_cache(maxsize=elsewhere.REMEMBERED)
def _read(data: bytes) -> _ModuleClasses:
    tree = elsewhere.parsed(data)
    if tree is None:
        return _ModuleClasses({}, ())
    classes = {node.name: _class(node) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return _ModuleClasses(classes, tuple(_makings(tree)))


def _class(definition: ast.ClassDef) -> _Class:
    methods = [part for part in definition.body if isinstance(part, ast.FunctionDef)]
    init = next((one for one in methods if one.name == "__init__"), None)
    used = frozenset(
        node.attr
        for method in methods
        if method is not init
        for node in ast.walk(method)
        if isinstance(node, ast.Attribute) and text_of(node.value) == "self"
    )
    bases = tuple(text_of(base).rpartition(".")[2] for base in definition.bases)
    if init is None:
        return _Class(None, (), used, bases)
    positional = tuple(one.arg for one in (*init.args.posonlyargs, *init.args.args))[1:]
    return _Class(positional, tuple(_stored(init)), used, bases)


def _stored(init: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """`self.writer = writer` as (parameter, attribute)."""
    for target, value in _assigned(init):
        if isinstance(target, ast.Attribute) and isinstance(value, ast.Name):
            yield value.id, target.attr


def _makings(tree: ast.Module) -> Iterator[_Made]:
    for target, value in _assigned(tree):
        calls = (node for node in ast.walk(value) if isinstance(node, ast.Call)) if _is_key(text_of(target)) else ()
        for call in calls:  # also the inner one of `loader = DataLoader(Data(losses))`
            numbered: list[tuple[int | str, str]] = [(place, text_of(part)) for place, part in enumerate(_plain(call))]
            numbered += [(one.arg, text_of(one.value)) for one in call.keywords if one.arg is not None]
            given = tuple((place, key) for place, key in numbered if _is_key(key))
            yield _Made(text_of(target), text_of(call.func).rpartition(".")[2], given)


def _assigned(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from elsewhere.assigned(node)


def _plain(call: ast.Call) -> Iterator[ast.expr]:
    """The positional arguments before a starred one: behind it nobody knows the places."""
    for argument in call.args:
        if isinstance(argument, ast.Starred):
            return
        yield argument


def _is_key(text: str) -> bool:
    """A name or an attribute of self, as `names.key` spells them."""
    return text.isidentifier() or (text.startswith("self.") and text[5:].isidentifier())
