"""What the methods of a file's classes keep of what they are handed, where the text tells which method a call runs.

In: a `FileText`, and calls. Out: the arguments of which an object may keep something, and whether a generator gives its
caller nothing but what it goes through. What is not certain is kept: another class, a decorator, a second name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_calls import PLAIN
from tracelens.patch.effects.file_text import FileText, chain_of
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import COMPREHENSIONS, FUNCTIONS, nodes_of
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

_INNER = (*FUNCTIONS, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Match)
_BY_TEXT = words("locals vars eval exec globals")
"""Functions that have all names of a method, whichever it says."""
_TELLS = words("len str repr int float bool isinstance type id hasattr print format")
"""Functions of Python itself that keep nothing, and give nothing that holds something."""
_MAKES_OTHERS = frozenset({"__new__", "__getattribute__"})


class FileMethods:
    """The calls whose receiver is a variable that stands for nothing but new objects of the file's classes."""

    def __init__(self, text: FileText) -> None:
        self.text = text
        self._made: dict[tuple[ast.AST, str], tuple[ast.ClassDef, ...]] = {}
        self._kept: dict[FunctionNode, frozenset[str]] = {}

    def kept(self, call: ast.Call, code: ast.AST) -> list[ast.expr]:
        """The arguments of which the object may keep something when a method of it is called."""
        given = [*call.args, *(one.value for one in call.keywords)]
        methods = self._run(call, code)
        hidden = any(isinstance(one, ast.Starred) for one in call.args) or any(not one.arg for one in call.keywords)
        if not methods or hidden:
            return given
        return [one for one in given if any(self._keeps(method, call, one) for method in methods)]

    def only_hands_on(self, call: ast.Call, code: ast.AST) -> bool:
        """Whether a call gives what a generator goes through, element by element, and nothing else."""
        methods = self._run(call, code)
        return bool(methods) and all(map(_hands_on, methods))

    def _run(self, call: ast.Call, code: ast.AST) -> tuple[ast.FunctionDef, ...]:
        """The methods that a call certainly runs; none where that is not known."""
        called = call.func
        if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name):
            return ()
        if called.attr not in self.text.functions or called.attr in self.text.stored or self._renamed:
            return ()
        classes = self._classes(called.value.id, code)
        found = [_method(made, called.attr) for made in classes]
        methods = tuple(one for one in found if one is not None)
        return methods if len(methods) == len(classes) else ()

    def _classes(self, name: str, code: ast.AST) -> tuple[ast.ClassDef, ...]:
        """The classes of which a variable of the function is always made."""
        if (code, name) not in self._made:
            self._made[code, name] = tuple(self._found(name, code))
        return self._made[code, name]

    def _found(self, name: str, code: ast.AST) -> Iterator[ast.ClassDef]:
        if (
            not isinstance(code, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module))
            or name not in self.text.scope(code).own
            or name in self.text.stored
        ):
            return
        makers = [one for one in nodes_of(code) if isinstance(one, ast.Assign) and _is_name(one.targets, name)]
        bound = sum(_binds(node, name) for node in syntax.walk(code))
        classes = [self._class(one.value) for one in makers]
        if bound == len(makers) and all(classes):
            yield from (one for found in classes for one in found)

    def _class(self, value: ast.expr) -> list[ast.ClassDef]:
        """The classes of a call's name, none of which makes anything else."""
        if not isinstance(value, ast.Call):
            return []
        root = chain_of(value.func)[-1]
        found = self._by_name.get(last_name(value.func), [])
        known = isinstance(root, ast.Name) and root.id not in self.text.libraries
        return found if known and all(map(_is_plain, found)) else []

    @cached_property
    def _renamed(self) -> frozenset[str]:
        """Functions of Python that keep nothing, under whose names a file has others."""
        return _TELLS & frozenset[str]().union(*(self.text.scope(one).own for one in self.text.modules))

    @cached_property
    def _by_name(self) -> dict[str, list[ast.ClassDef]]:
        out: dict[str, list[ast.ClassDef]] = {}
        for node in self.text.around:
            if isinstance(node, ast.ClassDef):
                out.setdefault(node.name, []).append(node)
        return out

    def _keeps(self, method: ast.FunctionDef, call: ast.Call, argument: ast.expr) -> bool:
        """Whether a method may keep something of that argument."""
        names = [one.arg for one in (*method.args.posonlyargs, *method.args.args)][1:]
        every = [*names, *(one.arg for one in method.args.kwonlyargs)]
        if method not in self._kept:
            self._kept[method] = frozenset(one for one in every if self._is_kept(method, one))
        word = next((one.arg for one in call.keywords if one.value is argument), None)
        if argument in call.args:
            word = next(iter(names[call.args.index(argument) :]), None)
        return word not in every or word in self._kept[method]

    def _is_kept(self, method: ast.FunctionDef, name: str) -> bool:
        """Whether what a parameter stands for, or a part of it, may be stored or handed to somebody else."""
        parts = [part for node in method.body for part in syntax.walk(node)]
        called = (last_name(part.func) for part in parts if isinstance(part, ast.Call))
        if any(isinstance(part, _INNER) for part in parts) or not _BY_TEXT.isdisjoint(called):
            return True
        names = _made_of(parts, name)
        return any(self._lets_go(part, names, _own(method)) for part in parts)

    def _lets_go(self, node: ast.AST, names: frozenset[str], own: str) -> bool:
        """Whether a node stores one of the names, or hands it to anybody who may keep it."""
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            return True if _mentions(node, names) else not isinstance(chain_of(node)[-1], ast.Name)
        for aims, value in _bound(node):
            stored = any(not isinstance(one, ast.Name) for aim in aims for one in _aims(aim))
            if stored and _mentions(value, names):
                return True
        if isinstance(node, ast.Call):
            given = (*node.args, *(one.value for one in node.keywords))
            plain = (last_name(node.func) in PLAIN or _is_counted(node)) and last_name(
                node.func
            ) not in self.text.functions
            own_too = _mentions(node.func, names) and any(_mentions(one, frozenset({own})) for one in given)
            return own_too or (not plain and any(_mentions(one, names) for one in given))
        if isinstance(node, (ast.BinOp, ast.Compare)):
            return _mentions(node, names) and _mentions(node, frozenset({own}))
        return False


def _method(made: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """A class's own method, as it stands there."""
    found = [one for one in made.body if isinstance(one, FUNCTIONS) and getattr(one, "name", "") == name]
    one = found[0] if len(found) == 1 else None
    return one if isinstance(one, ast.FunctionDef) and not one.decorator_list and _own(one) else None


def _own(method: ast.FunctionDef) -> str:
    given = [*method.args.posonlyargs, *method.args.args]
    return given[0].arg if given else ""


def _is_plain(made: ast.ClassDef) -> bool:
    """Whether to call the class makes an object of it, whose methods are those of the text."""
    own = {one.name for one in made.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return not made.decorator_list and not made.keywords and not own & _MAKES_OTHERS


def _is_name(targets: Iterable[ast.expr], name: str) -> bool:
    aims = list(targets)
    return len(aims) == 1 and isinstance(aims[0], ast.Name) and aims[0].id == name


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node gives a name a value, or takes it away."""
    match node:
        case ast.Name(id=bound):
            return bound == name and not isinstance(node.ctx, ast.Load)
        case ast.arg(arg=bound) | ast.alias(asname=str(bound)) | ast.alias(name=bound, asname=None):
            return bound == name
        case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
            return bound == name
        case ast.ExceptHandler(name=bound) | ast.MatchAs(name=bound) | ast.MatchStar(name=bound):
            return bound == name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name in names
        case _:
            return False


def _made_of(parts: Iterable[ast.AST], name: str) -> frozenset[str]:
    """The variables that may hold what a parameter stands for, or a part of it."""
    parts, names = list(parts), {name}
    grown = True
    while grown:
        size = len(names)
        for node in parts:
            for aims, value in _bound(node):
                if _mentions(value, frozenset(names)):
                    names |= {one.id for aim in aims for one in _aims(aim) if isinstance(one, ast.Name)}
        grown = len(names) > size
    return frozenset(names)


def _bound(node: ast.AST) -> Iterator[tuple[list[ast.expr], ast.AST]]:
    if isinstance(node, ast.Assign):
        yield node.targets, node.value
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield [node.target], node.value
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield [node.target], node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield [node.optional_vars], node.context_expr


def _aims(aim: ast.expr) -> Iterator[ast.expr]:
    if isinstance(aim, (ast.Tuple, ast.List)):
        for one in aim.elts:
            yield from _aims(one)
    else:
        yield aim.value if isinstance(aim, ast.Starred) else aim


def _mentions(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether a node says one of the names, other than to ask for its length or its text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TELLS:
        return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(_mentions(one, names) for one in syntax.children(node))


def _is_counted(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("enumerate", "zip", "range", "iter")


def _hands_on(method: ast.FunctionDef) -> bool:
    """Whether all that a generator yields are elements of its parameters, with which it does nothing else."""
    parts = [part for node in method.body for part in syntax.walk(node)]
    yields = [one for one in parts if isinstance(one, (ast.Yield, ast.YieldFrom))]
    given = {one.value for one in yields if isinstance(one, ast.Yield) and isinstance(one.value, ast.Name)}
    if not yields or len(given) < len(yields) or any(isinstance(one, (*_INNER, *COMPREHENSIONS)) for one in parts):
        return False
    stored = {one.id for one in parts if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    handed = {one.arg for one in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)} - stored
    loops = [one for one in parts if isinstance(one, ast.For) and _is_parameter(one.iter, handed - {_own(method)})]
    aims = {one for loop in loops for one in _aims(loop.target)}
    names = {one.id for one in given}
    return all(one in aims or one in given for one in parts if isinstance(one, ast.Name) and one.id in names)


def _is_parameter(node: ast.expr, names: AbstractSet[str]) -> bool:
    """Whether a loop goes through a parameter, counted or not."""
    if isinstance(node, ast.Call) and last_name(node.func) == "enumerate" and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Name) and node.id in names
