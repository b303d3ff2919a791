"""Which functions of a project read a clock or meet other ranks, themselves or through one another.

In: the bytes of a script and of the project's files that it imports. Out: `Clocked`, which is asked by the object and
the method of a call. Apart from elsewhere.py because a clock is looked for by the class of an object: half of all
scripts have a meter without a clock and a timer with one, and both have an `update`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tracelens.patch.code import clocks, elsewhere
from tracelens.patch.code.elsewhere import full_name
from tracelens.patch.code.outside import LIBRARIES, words

UNSEEN = words("__init__ __new__ __call__ __enter__ __exit__ __iter__ __next__ __del__ __post_init__")
"""Special methods that a name alone does not call."""
_HANDLERS = words("filter format emit")
_CONTAINERS = words("list dict set tuple deque defaultdict OrderedDict Counter open zeros ones empty full array tensor")
"""Names of what keeps values and has no clock."""
_SELF = ("self", "cls")
_NONE = frozenset[str]()
_LIBRARY = frozenset({"module"})
"""In place of a class: a module of a library or what it makes, whose functions are not followed."""


@dataclass(frozen=True)
class _Call:
    """`owners`: the classes that its object can have, None where nobody knows."""

    name: str
    owners: frozenset[str] | None
    receiver: str = ""


@dataclass(frozen=True)
class _Function:
    owner: str
    name: str
    shown: bool
    """A property: it runs where its name is."""
    reads: str
    """What binds it to its moment, in words."""
    calls: tuple[_Call, ...]


@dataclass(frozen=True)
class _ClockedFile:
    functions: tuple[_Function, ...]
    bases: Mapping[str, frozenset[str]]
    made: Mapping[str, frozenset[str]]
    """By the text of an object ("self.meter", "meters[]"), the classes that it is made of."""


@dataclass(frozen=True)
class Clocked:
    """The functions of a project by their names, each with what binds it to its moment."""

    functions: Mapping[str, tuple[_Function, ...]]
    bases: Mapping[str, frozenset[str]]
    made: Mapping[str, frozenset[str]]

    def call(self, receiver: str, method: str) -> str:
        """What binds `receiver.method(…)` of the script to its moment; no receiver: `method(…)`."""
        return self._reads(_Call(method, self.made.get(receiver), receiver))

    def attribute(self, receiver: str, name: str) -> str:
        """The same for `receiver.name`, which may be a property."""
        found = self._candidates(_Call(name, self.made.get(receiver), receiver))
        unseen = self.made.get(receiver, _NONE) - set(self.bases) - _CONTAINERS
        lasts = clocks.MAY_LOOK if unseen and clocks.lasts(name) else ""
        return next((one.reads for one in found if one.shown and one.reads), lasts)

    def text(self, receiver: str) -> str:
        """The same for an object whose name is used: `__str__`, `__format__`, `__iadd__` of its class."""
        classes = self._family(self.made.get(receiver, _NONE))
        special = (found for name, found in self.functions.items() if name.startswith("__") and name not in UNSEEN)
        return next((one.reads for found in special for one in found if one.reads and one.owner in classes), "")

    def closed(self) -> Clocked:
        """With all that a function calls taken in."""
        current = self
        while True:
            grown = {
                name: tuple(replace(one, reads=one.reads or current._behind(one)) for one in found)
                for name, found in current.functions.items()
            }
            if grown == current.functions:
                return current
            current = Clocked(grown, self.bases, self.made)

    def _behind(self, function: _Function) -> str:
        own = frozenset({function.owner}) if function.owner else None
        reads = (self._reads(replace(c, owners=own) if c.receiver in _SELF else c) for c in function.calls)
        return next(filter(None, reads), "")

    def _reads(self, call: _Call) -> str:
        if call.name in elsewhere.LOGGING and call.receiver:
            handlers = (one for name in _HANDLERS for one in self.functions.get(name, ()))
            return next((one.reads for one in handlers if one.reads), "")
        found = next((one.reads for one in self._candidates(call) if one.reads), "")
        return found or (clocks.MAY_LOOK if self._may_time(call) else "")

    def _candidates(self, call: _Call) -> tuple[_Function, ...]:
        """The functions that a call can mean."""
        name = call.name.rpartition(".")[2]
        known = self.functions.get(name, ())
        if not call.receiver:
            made = (one for one in self.functions.get("__init__", ()) if one.owner == name)
            return (*(one for one in known if not one.owner), *made)
        if call.owners is None or any(not one.owner for made in call.owners for one in self.functions.get(made, ())):
            return () if name in elsewhere.OF_A_LIBRARY and call.receiver not in _SELF else known
        family = self._family(call.owners)
        return tuple(one for one in known if one.owner in family)

    def _family(self, owners: frozenset[str]) -> frozenset[str]:
        """Classes with those that they are made of and those that are made of them."""
        below = (name for name in self.bases if owners & self._above(frozenset({name})))
        return self._above(owners | frozenset(below))

    def _above(self, owners: frozenset[str]) -> frozenset[str]:
        out, size = set(owners), -1
        while size != len(out):
            size = len(out)
            out |= {base for name in tuple(out) for base in self.bases.get(name, ())}
        return frozenset(out)

    def _may_time(self, call: _Call) -> bool:
        """An object of a class that nobody can see: what it is called tells whether there is a clock behind."""
        if not call.receiver or call.receiver in _SELF:
            return False
        if call.owners is None:
            return clocks.takes_time(call.name) or clocks.speaks_of_time(call.receiver.rpartition(".")[2].strip("[]"))
        unseen = call.owners - set(self.bases) - _CONTAINERS - _LIBRARY
        speaking = any(clocks.speaks_of_time(owner, of_class=True) for owner in unseen)
        return speaking or bool(unseen and clocks.takes_time(call.name))


@lru_cache(maxsize=8)
def clock_readers(script: bytes, others: tuple[bytes, ...]) -> Clocked:
    """What is known of a script and of the project's files that it imports."""
    own = _file(script)
    functions: dict[str, tuple[_Function, ...]] = {}
    bases: dict[str, frozenset[str]] = {}
    for one in (own, *map(_file, others)):
        for function in one.functions:
            functions[function.name] = (*functions.get(function.name, ()), function)
        for name, above in one.bases.items():
            bases[name] = bases.get(name, frozenset()) | above
    return Clocked(functions, bases, own.made).closed()


@lru_cache(maxsize=elsewhere.REMEMBERED)
def _file(data: bytes) -> _ClockedFile:
    tree = elsewhere.parsed(data)
    if tree is None:
        return _ClockedFile((), {}, {})
    imports = {**dict(elsewhere.imported(tree)), **_renamed(tree)}
    owners = {id(part): node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    made = _makers(tree, imports)
    bases = {
        node.name: frozenset(full_name(base, imports).rpartition(".")[2] for base in node.bases)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    functions = tuple(_function(node, owners.get(id(node), ""), imports, made) for node in found)
    return _ClockedFile(functions, bases, made)


def _function(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    owner: str,
    imports: Mapping[str, str],
    made: Mapping[str, frozenset[str]],
) -> _Function:
    shown = any(full_name(one, imports).endswith("property") for one in node.decorator_list)
    calls = tuple(_calls(node, imports, made))
    return _Function(owner, node.name, shown, clocks.bound(node, imports), calls)


def _calls(function: ast.AST, imports: Mapping[str, str], made: Mapping[str, frozenset[str]]) -> Iterator[_Call]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            name = node.func.id
            yield _Call("__call__", made[name], name) if name in made else _Call(imports.get(name, name), _NONE)
        elif isinstance(node.func, ast.Attribute):
            yield _of_method(node.func, imports, made)


def _of_method(func: ast.Attribute, imports: Mapping[str, str], made: Mapping[str, frozenset[str]]) -> _Call:
    called = func.value.func if isinstance(func.value, ast.Call) else None
    if isinstance(called, ast.Name) and called.id == "super":
        return _Call(func.attr, None, "self")
    receiver = text_of(func.value) or "?"
    root = imports.get(receiver.partition(".")[0], "").partition(".")[0]
    return _Call(func.attr, _LIBRARY if root in LIBRARIES else made.get(receiver), receiver)


def text_of(node: ast.expr) -> str:
    """`self.meters[]` for `self.meters["loss"]`; "" for what has no name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        base = text_of(node.value)
        ending = f".{node.attr}" if isinstance(node, ast.Attribute) else "[]"
        return f"{base}{ending}" if base else ""
    return ""


def _renamed(tree: ast.Module) -> dict[str, str]:
    """`clock` of `clock = time.perf_counter`."""
    known = dict(elsewhere.imported(tree))
    out: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            full = full_name(node.value, known)
            if full in clocks.CLOCKS:
                out |= {target.id: full for target in node.targets if isinstance(target, ast.Name)}
    return out


def _makers(tree: ast.Module, imports: Mapping[str, str]) -> dict[str, frozenset[str]]:
    out: dict[str, frozenset[str]] = {}
    for node in ast.walk(tree):
        for target, value in _bindings(node):
            for key, name in _classes(text_of(target), value, imports):
                out[key] = out.get(key, frozenset()) | {name}
    return out


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield from elsewhere.assigned(node)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        yield from ((item.optional_vars, item.context_expr) for item in node.items if item.optional_vars is not None)


def _classes(key: str, value: ast.expr, imports: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What an object is made of, and where it is a container what is in it."""
    if not key:
        return
    if isinstance(value, ast.Call):
        parts = full_name(value.func, imports).split(".")
        name = next((part for part in reversed(parts) if part[:1].isupper()), parts[-1])  # `Timer.create()`
        if name:
            yield key, "module" if parts[0] in LIBRARIES else name
        if name == "defaultdict" and value.args:
            maker = value.args[0].body if isinstance(value.args[0], ast.Lambda) else value.args[0]
            made = maker.func if isinstance(maker, ast.Call) else maker
            yield f"{key}[]", full_name(made, imports).rpartition(".")[2]
        return
    inside: Sequence[ast.expr | None] = ()
    if isinstance(value, (ast.List, ast.Set, ast.Tuple)):
        inside = value.elts
    elif isinstance(value, ast.Dict):
        inside = value.values
    elif isinstance(value, (ast.ListComp, ast.SetComp)):
        inside = (value.elt,)
    elif isinstance(value, ast.DictComp):
        inside = (value.value,)
    else:
        return
    yield key, "list"
    for part in inside:
        if part is not None:
            yield from _classes(f"{key}[]", part, imports)
