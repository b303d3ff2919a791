"""Who calls a function of the project: told by the names of classes, their bases and what a receiver is made by.

In: a file and one of its functions. Out: its calls in all files of the project; `Blocked`, with the place, where one
cannot be told. A call whose result nobody uses is none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile, Unreadable, parse_beside
from tracelens.patch.effects import places
from tracelens.patch.loop.loops import RETURN_TENSOR, Blocked, own_nodes, runs_at_once

MAX_FILES = 20
"""Files that have the name: more of them have it for other things, and each is parsed."""
_MODULE_METHODS = frozenset({"train", "eval", "step", "forward", "update", "test"})


class NeverCalled(Blocked):
    """Nothing in the project calls the function; a library may."""


@dataclass(frozen=True)
class ProjectCall:
    """A call, in the file where it stands."""

    source: SourceFile
    call: cst.Call


def place(source: SourceFile, node: cst.CSTNode) -> str:
    return f"{source.shown}:{source.line(node)}"


def used_calls_of(source: SourceFile, function: cst.FunctionDef) -> tuple[ProjectCall, ...]:
    """The calls of a plain function or method whose results are used: one that may be no such call does not matter
    where nobody gets its result, as of `model.train()`."""
    return _found(source, function, used=True)


def calls_of(source: SourceFile, function: cst.FunctionDef) -> tuple[ProjectCall, ...]:
    """All calls of a plain function or method."""
    return _found(source, function, used=False)


def is_object(file: SourceFile, receiver: cst.BaseExpression, home: SourceFile, owner: cst.ClassDef) -> bool | None:
    """Whether an object is of a class; None where that cannot be told."""
    return _is_mine(file, receiver, _family(home, owner))


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Which calls are looked for."""

    home: SourceFile
    function: cst.FunctionDef
    owner: cst.ClassDef | None
    used: bool
    family: frozenset[str] = frozenset()
    """Names of classes whose objects may be of the class."""
    only: bool = False
    """Nothing else near it is called so, and the name is no word of libraries, which have no `_`."""

    @property
    def name(self) -> str:
        return self.function.name.value


def _found(source: SourceFile, function: cst.FunctionDef, *, used: bool) -> tuple[ProjectCall, ...]:
    name, owner = function.name.value, source.innermost(cst.ClassDef, function)
    family = _family(source, owner) if owner is not None else frozenset[str]()
    static = [dotted(one.decorator) for one in function.decorators] in ([], ["staticmethod"])
    if not static or not runs_at_once(function):
        raise Blocked(None, say("`{name}` is decorated, a generator, or defines functions", name=name), RETURN_TENSOR)
    outer = source.innermost(cst.FunctionDef, function)
    if outer is not None or (len(source.names.functions.get(name, ())) > 1 and owner is None):
        raise Blocked(None, say("who calls `{name}` cannot be told", name=name), RETURN_TENSOR)
    files = files_with(source, name)
    definitions = sum(
        isinstance(node, cst.FunctionDef) and node.name.value == name for one in files for node in walk(one.module)
    )
    wanted = _Wanted(source, function, owner, used, family, only=definitions == 1 and "_" in name)
    found = tuple(call for one in files for call in _calls_in(one, wanted))
    if not found:
        raise NeverCalled(None, say("nothing in the project calls `{name}`", name=name), RETURN_TENSOR)
    return found


def files_with(source: SourceFile, name: str) -> tuple[SourceFile, ...]:
    """The files that can have an object of this one, and a word: this one first. `Blocked` where there are too many."""
    project, word = source.project, re.compile(rf"\b{re.escape(name)}\b")
    known = [(path, project.file(path)) for path in near(source) if path != source.path]
    others = [path for path, file in known if file is not None and word.search(file.text)]
    if len(others) > MAX_FILES or not project.complete:
        raise Blocked(None, say("too many files have the name `{name}`", name=name), RETURN_TENSOR)
    try:
        parsed = [parse_beside(source, path) for path in others]
    except (Unreadable, OSError):
        raise Blocked(None, say("a file with the name `{name}` cannot be read", name=name), RETURN_TENSOR) from None
    return (source, *parsed)


@lru_cache(maxsize=PARSED_FILES)
def near(source: SourceFile) -> tuple[Path, ...]:
    """The files that import this one, and all that these and this one import."""
    return source.project.around(source.path)


@lru_cache(maxsize=PARSED_FILES)
def _family(source: SourceFile, owner: cst.ClassDef) -> frozenset[str]:
    """The names of all classes that are made of a class or that it is made of, in the files near it."""
    bases: dict[str, set[str]] = {}
    for path in (source.path, *near(source)):
        for node in source.project.nodes(path):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(map(places.last_name, node.bases))
    name = owner.name.value
    above = _above(name, bases)
    return frozenset(above | {one for one in bases if name in _above(one, bases)})


def _above(name: str, bases: dict[str, set[str]]) -> set[str]:
    out, waiting = set[str](), [name]
    while waiting:
        current = waiting.pop()
        if current not in out:
            out.add(current)
            waiting += bases.get(current, ())
    return out


def _calls_in(file: SourceFile, wanted: _Wanted) -> Iterator[ProjectCall]:
    name, owner = wanted.name, wanted.owner
    for node in walk(file.module):
        if isinstance(node, cst.SimpleString) and node.evaluated_value == name:
            if is_looked_up(file, node):
                raise Blocked(
                    None, say("{place} has `{name}` as a text", place=place(file, node), name=name), RETURN_TENSOR
                )
        elif isinstance(node, cst.FunctionDef) and node.name.value == name and node is not wanted.function:
            _check_other(file, node, wanted)
        elif isinstance(node, cst.Attribute) and node.attr.value == name and owner is not None:
            yield from _called(file, node, wanted)
        elif isinstance(node, cst.Name) and node.value == name and owner is None:
            yield from _called_by_name(file, node, wanted.home)


@lru_cache(maxsize=PARSED_FILES)
def _looks_up(file: SourceFile) -> bool:
    """Whether a file looks something up by a text that is worked out: `getattr(trainer, mode)(batch)`."""
    for call in (node for node in walk(file.module) if isinstance(node, cst.Call)):
        name = dotted(call.func).rpartition(".")[2]
        if name in ("globals", "eval", "exec", "methodcaller"):
            return True
        texts = [one.value for one in call.args if isinstance(one.value, cst.SimpleString)]
        if name in ("getattr", "setattr") and not texts:
            return True
    return False


def is_looked_up(file: SourceFile, text: cst.SimpleString) -> bool:
    """Whether a text may be the name by which something is looked up."""
    argument = file.parent(text)
    call = file.parent(argument) if isinstance(argument, cst.Arg) else None
    return _looks_up(file) or (isinstance(call, cst.Call) and dotted(call.func) in ("getattr", "setattr", "hasattr"))


def _check_other(file: SourceFile, other: cst.FunctionDef, wanted: _Wanted) -> None:
    """Raise `Blocked` for a definition in a class above or below that takes its place and gives something."""
    name, around, owner = other.name.value, file.innermost(cst.ClassDef, other), wanted.owner
    if owner is None or around is None or around.name.value not in wanted.family:
        return
    gives = any(isinstance(node, cst.Return) and node.value is not None for node in own_nodes(other))
    if gives or around.name.value == owner.name.value:
        told = say("`{name}` is defined at {place} as well", name=name, place=place(file, other))
        raise Blocked(None, told, RETURN_TENSOR)


def _comes_from(file: SourceFile, name: str, home: SourceFile) -> bool:
    """Whether a name is that of the file `home`; `Blocked` where a third file hands it on."""
    came = imported(file, name)
    if came is None or came[0] == home.path:
        return came is not None and came[1] == name
    if _defines(file, *came):
        return False
    raise Blocked(None, say("{path} has `{name}` from a third file", path=file.shown, name=name), RETURN_TENSOR)


def _called_by_name(file: SourceFile, node: cst.Name, home: SourceFile) -> Iterator[ProjectCall]:
    """The call of a function by its name, or as that of a module."""
    parent = file.parent(node)
    if isinstance(parent, cst.ImportAlias) and parent.asname is not None:
        told = say("{place} has `{name}` by another name", place=place(file, node), name=node.value)
        raise Blocked(None, told, RETURN_TENSOR)
    if isinstance(parent, (cst.FunctionDef, cst.ImportAlias)) or (
        isinstance(parent, (cst.Arg, cst.Param)) and not (isinstance(parent, cst.Arg) and parent.value is node)
    ):
        return
    used: cst.CSTNode = node
    itself = Blocked(None, say("{place} uses `{name}` itself", place=place(file, node), name=node.value), RETURN_TENSOR)
    if isinstance(parent, cst.Attribute):
        if parent.attr is not node:
            raise itself
        if module_of(file, parent.value) != home.path:
            return  # a method of something else
        used, parent = parent, file.parent(parent)
    elif file is not home and not _comes_from(file, node.value, home):
        return  # a name of the file's own
    if not isinstance(parent, cst.Call) or parent.func is not used:
        raise itself
    yield ProjectCall(file, parent)


def _called(file: SourceFile, node: cst.Attribute, wanted: _Wanted) -> Iterator[ProjectCall]:
    """The call of a method: an attribute of the name, as far as its object can be of the class."""
    parent, name = file.parent(node), node.attr.value
    is_call = isinstance(parent, cst.Call) and parent.func is node
    mine = _is_mine(file, node.value, wanted.family) if wanted.owner is not None else False
    mine = True if mine is None and wanted.only else mine
    if mine is None and not (is_call and wanted.used and isinstance(file.parent(parent or node), cst.Expr)):
        if name in _MODULE_METHODS and not isinstance(node.value, cst.Name):
            return  # `self.model.train(True)`, `self.optimizer.step()`
        told = say("whether `{call}` at {place} is it cannot be told", call=file.code(node), place=place(file, node))
        raise Blocked(None, told, RETURN_TENSOR)
    if not mine:
        return
    if not isinstance(parent, cst.Call) or not is_call:
        raise Blocked(None, say("{place} uses `{name}` itself", place=place(file, node), name=name), RETURN_TENSOR)
    yield ProjectCall(file, parent)


def _is_mine(file: SourceFile, receiver: cst.BaseExpression, family: frozenset[str]) -> bool | None:
    """Whether an object is of the class; None where that cannot be told."""
    text = dotted(receiver)
    if text in ("self", "cls"):
        around = file.innermost(cst.ClassDef, receiver)
        return around is not None and around.name.value in family
    if isinstance(receiver, cst.Call):
        return dotted(receiver.func) == "super" or _is_class(file, dotted(receiver.func), family)
    if not isinstance(receiver, cst.Name):
        return None
    if (known := _is_class(file, text, family)) is not None and (known or text in file.names.classes):
        return known
    made = {_is_class(file, one, family) for one in _makers(file, receiver)}
    return made.pop() if len(made) == 1 else None


def _makers(file: SourceFile, receiver: cst.Name) -> Iterator[str]:
    """What the values of a name are made by, in its function, else in the file; "" for what is no call."""
    scopes = [one for one in file.ancestors(receiver) if isinstance(one, (cst.FunctionDef, cst.Module))]
    for scope in scopes:
        bound = False
        for node in own_nodes(scope):
            if isinstance(node, cst.Assign) and any(dotted(one.target) == receiver.value for one in node.targets):
                bound = True
                made_by = dotted(node.value.func) if isinstance(node.value, cst.Call) else ""
                if made_by.partition(".")[0] != receiver.value:  # `model = model.cuda()`
                    yield made_by
        if isinstance(scope, cst.FunctionDef):
            params = [one for one in walk(scope.params) if isinstance(one, cst.Param)]
            if any(one.name.value == receiver.value for one in params):
                yield ""
                return
        if bound:
            return


def _is_class(file: SourceFile, made_by: str, family: frozenset[str]) -> bool | None:
    """Whether a call of this name makes an object of the class; None for what cannot be told."""
    if not made_by:
        return None
    first, _, last = made_by.rpartition(".")
    if last in file.names.classes and not first:
        return last in family
    came = imported(file, last) if not first else None
    if came is not None:
        path, name = came
        if name in family:
            return True
        return False if _defines(file, path, name) else None
    full = file.names.imports.get(made_by.partition(".")[0], "")
    return False if full.partition(".")[0] in ("torch", "numpy", "gym") else None


def _defines(file: SourceFile, path: Path, name: str) -> bool:
    """Whether a file defines a name itself; one that only imports it hands on that of another."""
    tree = file.project.tree(path)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return tree is not None and any(isinstance(one, kinds) and one.name == name for one in tree.body)


def imported(file: SourceFile, name: str) -> tuple[Path, str] | None:
    """The project's file that a name is imported from, and the name that it has there."""
    project = file.project
    for node in walk(file.module):
        if not isinstance(node, cst.ImportFrom):
            continue
        path = project.module(dotted(node.module), len(node.relative), file.path)
        if path is None:
            continue
        if isinstance(node.names, cst.ImportStar):
            if _defines(file, path, name):
                return path, name
            continue
        for alias in node.names:
            if (alias.evaluated_alias or alias.evaluated_name) == name:
                return path, alias.evaluated_name
    return None


def module_of(file: SourceFile, receiver: cst.BaseExpression) -> Path | None:
    """The project's file that a name stands for: `import engine`, `from . import engine`."""
    text, project = dotted(receiver), file.project
    for node in walk(file.module):
        if isinstance(node, cst.Import):
            for alias in node.names:
                if (alias.evaluated_alias or alias.evaluated_name) == text:
                    return project.module(alias.evaluated_name, 0, file.path)
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                if (alias.evaluated_alias or alias.evaluated_name) == text:
                    name = f"{dotted(node.module)}.{alias.evaluated_name}".lstrip(".")
                    return project.module(name, len(node.relative), file.path)
    return None
