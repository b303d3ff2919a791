"""What an expression may stand for, in the files that run together: what its names are given there.

In: the trees of the files. Out: expressions, each in its file; None where somebody else may give something. A name
means that of its function, then of its file, then of any; a parameter has what all calls of such a name hand to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import around, function_of, functions_around, last_name, path_to
from tracelens.patch.effects.scopes import Function
from tracelens.patch.loop.project_trees import Definition, dotted, imports

_SELF = ("self", "cls")
_BINDS = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem)


@dataclass(frozen=True)
class Given:
    """An expression in its file."""

    tree: ast.Module
    node: ast.expr


@dataclass(frozen=True, eq=False)
class Origins:
    """The files that run together, the asking one first."""

    trees: tuple[ast.Module, ...]

    @cached_property
    def definitions(self) -> Mapping[str, tuple[tuple[ast.Module, Definition], ...]]:
        """Functions, methods and classes by their names."""
        out: dict[str, tuple[tuple[ast.Module, Definition], ...]] = {}
        for tree in self.trees:
            for node in syntax.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    out[node.name] = (*out.get(node.name, ()), (tree, node))
        return out

    @cached_property
    def _bindings(self) -> Mapping[str, tuple[tuple[ast.Module, ast.expr, ast.expr], ...]]:
        """Targets with what they are given, by their last names."""
        out: dict[str, list[tuple[ast.Module, ast.expr, ast.expr]]] = {}
        for tree in self.trees:
            for node in syntax.walk(tree):
                for target, value in _bound(node):
                    out.setdefault(last_name(target), []).append((tree, target, value))
        return {name: tuple(found) for name, found in out.items()}

    @cached_property
    def _mentions(self) -> Mapping[str, tuple[tuple[ast.Module, ast.expr], ...]]:
        """Names and attributes by their last names."""
        out: dict[str, list[tuple[ast.Module, ast.expr]]] = {}
        for tree in self.trees:
            for node in syntax.walk(tree):
                if isinstance(node, (ast.Name, ast.Attribute)):
                    out.setdefault(last_name(node), []).append((tree, node))
        return {name: tuple(found) for name, found in out.items()}

    def given(self, part: Given) -> Iterator[Given | None]:
        """What a name or an attribute is given, wherever that is."""
        if isinstance(part.node, ast.Name):
            yield from self._of_name(part.tree, part.node)
        elif isinstance(part.node, ast.Attribute):
            known = self._bindings.get(part.node.attr, ())
            stored = [one for one in known if isinstance(one[1], ast.Attribute)]
            own = [
                one for one in stored if one[0] is part.tree and _class_of(*one[:2]) is _class_of(part.tree, part.node)
            ]
            of_self = dotted(part.node.value) in _SELF
            if not stored and not of_self:
                yield Given(part.tree, part.node.value)  # what an object has, which nobody here gave it
                return
            yield from self._given(own if of_self and own else stored)

    def _of_name(self, tree: ast.Module, node: ast.Name) -> Iterator[Given | None]:
        known = [one for one in self._bindings.get(node.id, ()) if isinstance(one[1], ast.Name)]
        here = [one for one in known if one[0] is tree]
        for function in reversed(functions_around(tree, node)):
            inside = [Given(tree, value) for _, target, value in here if function_of(tree, target) is function]
            handed = list(self._handed(tree, function, node.id))
            if inside or handed or (node.id in _SELF and isinstance(around(tree).get(function), ast.ClassDef)):
                yield from (one for one in (*handed, *inside) if node.id not in _SELF)
                return
        imported = node.id in imports(tree)
        top = [one for one in (known if imported else here) if function_of(*one[:2]) is one[0]]
        yield from () if imported and not top else self._given(top)

    def _given(self, found: list[tuple[ast.Module, ast.expr, ast.expr]]) -> Iterator[Given | None]:
        yield from (Given(tree, value) for tree, _, value in found)
        if not found:
            yield None

    def _handed(self, tree: ast.Module, function: Function, name: str) -> Iterator[Given | None]:
        """What calls hand to a parameter, and its default; nothing where it is none."""
        given = function.args
        order = [*given.posonlyargs, *given.args]
        names = [one.arg for one in order]
        if name not in names and name not in [one.arg for one in given.kwonlyargs]:
            return
        if isinstance(function, ast.Lambda):
            yield Given(tree, ast.Constant(None))  # what calls it is of a library, most often
            return
        owner = around(tree).get(function)
        method = isinstance(owner, ast.ClassDef)
        defaults = dict(zip(names[::-1], given.defaults[::-1], strict=False))
        defaults |= {one.arg: value for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value}
        if name in defaults:
            yield Given(tree, defaults[name])
        called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
        calls = list(self._calls(tree, called, method and called == function.name))
        position = names.index(name) - method if name in names else -1
        for one in calls:
            yield None if one is None else _argument(one, name, position)
        if not calls:
            yield None

    def _calls(self, home: ast.Module, name: str, of_object: bool) -> Iterator[Given | None]:
        """The calls of a method, or of a function or class; None for another use of it."""
        for tree, node in self._mentions.get(name, ()):
            outer = around(tree).get(node)
            known = imports(tree)
            if isinstance(node, ast.Name):
                same = not of_object and (tree is home or name in known or "*" in known)
            else:
                same = of_object or dotted(node).partition(".")[0] in known
            if not same:
                continue
            if isinstance(outer, ast.Call) and outer.func is node:
                yield Given(tree, outer)
            elif not isinstance(outer, ast.ClassDef) and isinstance(node, ast.Name):
                yield None


def _argument(call: Given, name: str, position: int) -> Given | None:
    node = call.node
    if not isinstance(node, ast.Call):
        return None
    named = next((one.value for one in node.keywords if one.arg == name), None)
    if named is not None:
        return Given(call.tree, named)
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        return None
    return (
        Given(call.tree, node.args[position])
        if 0 <= position < len(node.args)
        else Given(call.tree, ast.Constant(None))
    )


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names and attributes that a node gives a value; of `a, b = x, y` each its own."""
    if not isinstance(node, _BINDS):
        return
    value = node.iter if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) else getattr(node, "value", None)
    if isinstance(node, ast.withitem):
        value = node.context_expr
    for target in node.targets if isinstance(node, ast.Assign) else [_target(node)]:
        if target is not None and value is not None:
            yield from _split(target, value, isinstance(node, ast.Assign))


def _target(node: ast.AST) -> ast.expr | None:
    return node.optional_vars if isinstance(node, ast.withitem) else getattr(node, "target", None)


def _split(target: ast.expr, value: ast.expr, whole: bool) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The names of a target with their values. `whole`: the target is given the value itself, not its items."""
    if isinstance(target, (ast.Tuple, ast.List)):
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        starred = any(isinstance(one, ast.Starred) for one in target.elts)
        for number, one in enumerate(target.elts):
            part = ast.Subscript(value, ast.Constant(number), ast.Load()) if whole and not starred else value
            yield from _split(
                one, value.elts[number] if same and isinstance(value, (ast.Tuple, ast.List)) else part, whole
            )
    elif isinstance(target, ast.Starred):
        yield from _split(target.value, value, whole)
    elif isinstance(target, (ast.Name, ast.Attribute)):
        yield target, value


def _class_of(tree: ast.Module, node: ast.AST) -> ast.AST | None:
    return next((one for one in reversed(path_to(tree, node)) if isinstance(one, ast.ClassDef)), None)
