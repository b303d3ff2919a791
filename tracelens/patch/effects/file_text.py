"""Which variables a piece of one file means, told by its text alone: for a project that is too large to be followed.

In: the tree of a file. Out: `Place`s, which are variables with the first attribute that is asked of them, and the
functions that a piece may call. One step through the text for each: nothing here grows with what a name can stand for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from tracelens.patch.effects.scopes import FUNCTIONS, Code, Scope, scope_of
from tracelens.patch.effects.scopes import Function as FunctionNode

SELF = ("self", "cls")
_CALLED = ("__call__", "forward")
"""What runs where an object is called."""


class Place(NamedTuple):
    """A variable of `owner`, with the first attribute that is asked of it; empty for all of it.

    The owner of `self` is the first of the classes of the file of which its own one is made.
    """

    owner: ast.AST
    name: str
    attribute: str = ""

    def meets(self, other: Place) -> bool:
        """Whether one is a part of the other."""
        same = self.owner is other.owner and self.name == other.name
        return same and (self.attribute == other.attribute or "" in (self.attribute, other.attribute))

    @property
    def whole(self) -> Place:
        return Place(self.owner, self.name)

    @property
    def shown(self) -> str:
        return f"{self.name}.{self.attribute}" if self.attribute else self.name


class FileText:
    """One file. `is_own`: whether an import, by its full name, means something of the project."""

    def __init__(self, tree: ast.Module, is_own: Callable[[str], bool]) -> None:
        self.tree = tree
        self._is_own = is_own
        self._scopes: dict[ast.AST, Scope] = {}

    # ---------------------------------------------------------------------------------------------------- what there is

    @cached_property
    def around(self) -> dict[ast.AST, tuple[ast.AST, ...]]:
        """By function and class, the functions and classes around it, the outermost first."""
        out: dict[ast.AST, tuple[ast.AST, ...]] = {self.tree: ()}
        waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(self.tree, ())]
        while waiting:
            node, outer = waiting.pop()
            for child in ast.iter_child_nodes(node):
                inner = isinstance(child, (*FUNCTIONS, ast.ClassDef))
                if inner:
                    out[child] = outer
                waiting.append((child, (*outer, child) if inner else outer))
        return out

    @cached_property
    def functions(self) -> dict[str, tuple[FunctionNode, ...]]:
        """By name, the functions and methods of the file."""
        out: dict[str, tuple[FunctionNode, ...]] = {}
        for node in self.around:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                out[node.name] = (*out.get(node.name, ()), node)
        return out

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in self.around if isinstance(node, ast.ClassDef)}

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Names that stand for modules and functions of libraries."""
        out: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names = ((one.asname or one.name.partition(".")[0], one.name) for one in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                names = ((one.asname or one.name, f"{base}.{one.name}") for one in node.names)
            else:
                continue
            out.update(name for name, full in names if not full.startswith(".") and not self._is_own(full))
        return frozenset(out)

    def scope(self, code: ast.AST) -> Scope:
        if code not in self._scopes:
            assert isinstance(code, Code)
            self._scopes[code] = scope_of(code)
        return self._scopes[code]

    def family(self, code: ast.AST) -> ast.AST | None:
        """For a method, the first class of the file of which its class is made; None for other functions."""
        made = next((one for one in reversed(self.around[code]) if isinstance(one, ast.ClassDef)), None)
        return None if made is None else self._first(made)

    def _first(self, made: ast.ClassDef) -> ast.ClassDef:
        seen = {made}
        while True:
            bases = (self.classes.get(one.id) for one in made.bases if isinstance(one, ast.Name))
            base = next((one for one in bases if one is not None and one not in seen), None)
            if base is None:
                return made
            seen.add(base)
            made = base

    def has_other_bases(self, code: ast.AST) -> bool:
        """Whether a method's class is made of one of another file of the project."""
        made = (one for one in self.around[code] if isinstance(one, ast.ClassDef))
        bases = (_chain(base)[-1] for one in made for base in one.bases)
        names = (one.id for one in bases if isinstance(one, ast.Name))
        return any(one not in self.classes and one not in self.libraries and one != "object" for one in names)

    # -------------------------------------------------------------------------------------------------------- variables

    def place(self, node: ast.AST, code: ast.AST) -> Place | None:
        """The variable behind a chain of attributes, elements and calls, in the function `code`."""
        chain = _chain(node)
        root = chain[-1]
        owner = self.owner(root.id, code) if isinstance(root, ast.Name) else None
        if owner is None or not isinstance(root, ast.Name):
            return None
        first, call = (chain[-2] if len(chain) > 1 else None), (chain[-3] if len(chain) > 2 else None)
        if not isinstance(first, ast.Attribute):
            return Place(owner, root.id)
        if not isinstance(call, ast.Call):
            return Place(owner, root.id, first.attr)
        return self._called_of(Place(owner, root.id, first.attr), code)

    def _called_of(self, place: Place, code: ast.AST) -> Place | None:
        """What the call of an attribute sees: all of its object. A method of `self` is followed, where it is known."""
        if place.name not in SELF or place.attribute in self.stored:
            return place if place.name in SELF else place.whole
        if place.attribute in self.functions:
            return None
        return place.whole if self.has_other_bases(code) else place

    @cached_property
    def stored(self) -> frozenset[str]:
        """The attributes that are stored anywhere in the file."""
        nodes = (node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute))
        return frozenset(node.attr for node in nodes if isinstance(node.ctx, ast.Store))

    def owner(self, name: str, code: ast.AST) -> ast.AST | None:
        """What a name is a variable of; None for what a library or Python itself has under it."""
        if name in SELF and (family := self.family(code)) is not None:
            return family
        chain = [one for one in (*self.around[code], code) if not isinstance(one, ast.ClassDef)]
        for one in reversed(chain):
            scope = self.scope(one)
            if name in scope.module:
                break
            if name in scope.own and one is not self.tree:
                return one
        known = name in self.scope(self.tree).own or any(name in self.scope(one).module for one in chain)
        return self.tree if known and name not in self.libraries else None

    def mentions(self, node: ast.AST, code: ast.AST) -> Iterator[tuple[Place, ast.AST]]:
        """The variables that a piece looks at or hands on, each with the node that does; not those it only binds."""
        chain = _chain(node)
        root = chain[-1]
        if isinstance(root, ast.Name):
            found = self.place(node, code)
            if found is not None and not (node is root and not isinstance(root.ctx, ast.Load)):
                yield found, node
            for part in chain[:-1]:
                for inner in _beside(part):
                    yield from self.mentions(inner, code)
            return
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or isinstance(node, ast.Lambda):
            for child in ast.iter_child_nodes(node):
                yield from self.mentions(child, code)

    # ------------------------------------------------------------------------------------------------------------ calls

    def calls_in(self, node: ast.AST) -> list[ast.Call]:
        """The first call within a chain of attributes and elements."""
        return [one for one in _chain(node)[1:] if isinstance(one, ast.Call)][:1]

    def called(self, node: ast.AST) -> Iterator[FunctionNode]:
        """The functions of the file that a call, or the mention of a function, may run; by their names."""
        if isinstance(node, ast.Attribute):
            yield from self.functions.get(node.attr, ())
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from self.functions.get(node.id, ())
            yield from self._methods(self.classes.get(node.id), ("__init__", "__post_init__", *_CALLED))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") not in self.functions:
            yield from (one for name in _CALLED for one in self.functions.get(name, ()))

    def _methods(self, made: ast.ClassDef | None, names: Iterable[str]) -> Iterator[FunctionNode]:
        for name in names if made is not None else ():
            yield from (one for one in self.functions.get(name, ()) if made in self.around[one])

    def behind(self, nodes: Iterable[ast.AST]) -> tuple[FunctionNode, ...]:
        """All functions of the file that run where these nodes do, directly or through one another."""
        waiting = [one for node in nodes for part in ast.walk(node) for one in self.called(part)]
        out = dict.fromkeys(waiting)
        while waiting:
            function = waiting.pop()
            new = [one for part in ast.walk(function) for one in self.called(part) if one not in out]
            out.update(dict.fromkeys(new))
            waiting += new
        return tuple(out)


def _chain(node: ast.AST) -> list[ast.AST]:
    """The node, what it is an attribute, an element or a call of, and so on to the name."""
    out = [node]
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred, ast.Await)):
        node = node.func if isinstance(node, ast.Call) else node.value
        out.append(node)
    return out


def _beside(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a piece of a chain that lead to no name of it: arguments, indices."""
    if isinstance(node, ast.Call):
        yield from (*node.args, *(one.value for one in node.keywords))
    elif isinstance(node, ast.Subscript):
        yield node.slice
