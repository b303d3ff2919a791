"""Which variables a piece of one file means, told by its text alone: for a project that is too large to be followed.

In: the tree of a file. Out: `Place`s, which are variables with the first attribute that is asked of them, and the
functions that a piece may call. One step through the text for each: nothing here grows with what a name can stand for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeGuard

from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import (
    COMPREHENSIONS,
    FUNCTIONS,
    Code,
    Scope,
    bound_by,
    imported,
    nodes_of,
    parameters,
    scope_of,
)
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

SELF = ("self", "cls")
SETTINGS = words("args opt opts cfg config conf params hparams hps hp flags FLAGS options settings")
"""Names whose attributes are numbers and texts: who is made of them shares nothing with others, and a helper that
receives them seldom changes them."""


_IMPORTS = (ast.Import, ast.ImportFrom)
_DISPLAYS = (ast.List, ast.Dict, ast.Set, *COMPREHENSIONS)
_MAKES_CONTAINER = words("list dict set defaultdict deque Counter OrderedDict")


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


IsOwn = Callable[[str], bool]
"""Whether an import, by its full name, means something of the project."""


class FileText:
    """One file, with those of its project that it imports, as far as they are followed."""

    def __init__(self, tree: ast.Module, is_own: IsOwn, others: Iterable[tuple[ast.Module, IsOwn]] = ()) -> None:
        self.tree = tree
        self.modules = {tree: is_own, **dict(others)}
        self._scopes: dict[ast.AST, Scope] = {}
        self._mentioned: dict[FunctionNode, tuple[Place, ...]] = {}
        self._imported: dict[ast.AST, frozenset[str]] = {}

    # ---------------------------------------------------------------------------------------------------- what there is

    @cached_property
    def around(self) -> dict[ast.AST, tuple[ast.AST, ...]]:
        """By function and class, the functions and classes around it, the outermost first."""
        out: dict[ast.AST, tuple[ast.AST, ...]] = dict.fromkeys(self.modules, ())
        waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, (tree,)) for tree in self.modules]
        while waiting:
            node, outer = waiting.pop()
            for child in syntax.children(node):
                inner = isinstance(child, (*FUNCTIONS, ast.ClassDef))
                if inner:
                    out[child] = outer
                waiting.append((child, (*outer, child) if inner else outer))
        return out

    def module(self, code: ast.AST) -> ast.Module:
        """The file that a piece of code stands in."""
        found = self.around[code][0] if self.around[code] else code
        assert isinstance(found, ast.Module)
        return found

    @cached_property
    def functions(self) -> dict[str, tuple[FunctionNode, ...]]:
        """By name, the functions and methods of all files."""
        out: dict[str, tuple[FunctionNode, ...]] = {}
        for node in self.around:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                out[node.name] = (*out.get(node.name, ()), node)
        return out

    def functions_of_name(self, name: str) -> tuple[FunctionNode, ...]:
        """Those that a variable of that name can mean: a method has no such name outside of the body of its class,
        unless a module or a class gives it one."""
        found = self.functions.get(name, ())
        if not found or name in self.given_names:
            return found
        return tuple(one for one in found if not isinstance(self.around[one][-1], ast.ClassDef))

    @cached_property
    def given_names(self) -> frozenset[str]:
        """The names that modules bind by statements, that functions declare global, and that bodies of classes use."""
        out: set[str] = set()
        for code in self.around:
            if isinstance(code, (ast.Module, ast.ClassDef)):
                names = (node for node in nodes_of(code) if isinstance(node, ast.Name))
                out |= {one.id for one in names if isinstance(code, ast.ClassDef) or isinstance(one.ctx, ast.Store)}
            elif not isinstance(code, ast.Lambda):
                out |= self.scope(code).module
        return frozenset(out)

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        found = [node for node in self.around if isinstance(node, ast.ClassDef)]
        return {node.name: node for node in reversed(found)}

    @cached_property
    def shared(self) -> frozenset[str]:
        """The attributes that stand for one object of a class, which its own objects do not replace: `values = []`."""
        out: set[str] = set()
        for made in (one for one in self.around if isinstance(one, ast.ClassDef)):
            bound = [one for one in made.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
            held = [one for one in bound if one.value is not None and self._holds_more(one.value)]
            aims = (aim for one in held for aim in (one.targets if isinstance(one, ast.Assign) else [one.target]))
            own = {one.attr for one in syntax.walk(made) if _is_own_store(one)}
            out |= {aim.id for aim in aims if isinstance(aim, ast.Name)} - own
        return frozenset(out)

    def _holds_more(self, value: ast.expr) -> bool:
        """Whether a value is a list, a dict or an object of the files, and not only described, as that of a field."""
        name = last_name(value.func) if isinstance(value, ast.Call) else ""
        return isinstance(value, _DISPLAYS) or name in _MAKES_CONTAINER or name in self.classes

    @cached_property
    def libraries(self) -> frozenset[str]:
        """Names that stand for modules and functions of libraries."""
        return frozenset(name for name, _, own in self._imports if not own)

    @cached_property
    def own_modules(self) -> frozenset[str]:
        """Names that stand for modules and functions of the project, and are bound in its files by an import."""
        return frozenset(name for name, _, own in self._imports if own)

    @cached_property
    def _imports(self) -> tuple[tuple[str, ast.Module, bool], ...]:
        """The names that imports bind, each with its file and whether it means something of the project."""
        out: list[tuple[str, ast.Module, bool]] = []
        for tree, is_own in self.modules.items():
            for node in syntax.walk(tree):
                names: Iterable[tuple[str, str]] = ()
                if isinstance(node, ast.Import):
                    names = ((one.asname or one.name.partition(".")[0], one.name) for one in node.names)
                elif isinstance(node, ast.ImportFrom):
                    base = "." * node.level + (node.module or "")
                    names = ((one.asname or one.name, f"{base}.{one.name}") for one in node.names)
                out += [(name, tree, full.startswith(".") or is_own(full)) for name, full in names]
        return tuple(out)

    @cached_property
    def _homes(self) -> dict[str, ast.Module]:
        """By name, the first file that has it as a variable of its module and not from an import."""
        imported = {(name, tree) for name, tree, _ in self._imports}
        out: dict[str, ast.Module] = {}
        for tree in self.modules:
            for name in self.scope(tree).own:
                if (name, tree) not in imported:
                    out.setdefault(name, tree)
        return out

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
        bases = (chain_of(base)[-1] for one in made for base in one.bases)
        names = (one.id for one in bases if isinstance(one, ast.Name))
        return any(one not in self.classes and one not in self.libraries and one != "object" for one in names)

    # -------------------------------------------------------------------------------------------------------- variables

    def place(self, node: ast.AST, code: ast.AST) -> Place | None:
        """The variable behind a chain of attributes, elements and calls, in the function `code`."""
        chain = chain_of(node)
        name = chain[-1].id if isinstance(chain[-1], ast.Name) else ""
        while name in self.own_modules and len(chain) > 1 and isinstance(chain[-2], ast.Attribute):
            if self._homes.get(name) is not None:
                break
            name = chain[-2].attr  # a variable of another file, by the name of its module
            chain = chain[:-1]
        owner = self.owner(name, code) if name else None
        if owner is None:
            return None
        first, call = (chain[-2] if len(chain) > 1 else None), (chain[-3] if len(chain) > 2 else None)
        if not isinstance(first, ast.Attribute):
            return Place(owner, name)
        if not isinstance(call, ast.Call):
            computed = name not in SELF and first.attr in self.functions and first.attr not in self.stored
            return Place(owner, name) if computed else Place(owner, name, first.attr)
        return self._called_of(Place(owner, name, first.attr), code)

    def _called_of(self, place: Place, code: ast.AST) -> Place | None:
        """What the call of an attribute sees: all of its object. A method of `self` is followed, where it is known."""
        if place.name not in SELF or place.attribute in self.stored:
            return place if place.name in SELF else place.whole
        if place.attribute in self.functions:
            return None
        return place.whole if self.has_other_bases(code) else place

    @cached_property
    def stored(self) -> frozenset[str]:
        """The attributes that are stored anywhere."""
        nodes = (node for tree in self.modules for node in syntax.walk(tree) if isinstance(node, ast.Attribute))
        return frozenset(node.attr for node in nodes if isinstance(node.ctx, ast.Store))

    def is_settings(self, name: str) -> bool:
        """Whether a variable of that name has nothing but settings: none is the optimizer."""
        return name.lower() in SETTINGS and name not in self._optimizers

    @cached_property
    def _optimizers(self) -> frozenset[str]:
        bound = (node for tree in self.modules for node in syntax.walk(tree) if isinstance(node, ast.Assign))
        made = (one for one in bound if any(getattr(part, "attr", "") == "optim" for part in chain_of(one.value)))
        return frozenset(aim.id for one in made for aim in one.targets if isinstance(aim, ast.Name))

    def owner(self, name: str, code: ast.AST) -> ast.AST | None:
        """What a name is a variable of; None for what a library or Python itself has under it."""
        if name in SELF and (family := self.family(code)) is not None:
            return family
        chain = [one for one in (*self.around[code], code) if not isinstance(one, ast.ClassDef)]
        for one in reversed(chain):
            scope = self.scope(one)
            if name in scope.module:
                return self._homes.get(name, self.module(code))
            if name in scope.own and not isinstance(one, ast.Module) and name not in self._modules_in(one):
                return one
        return self._homes.get(name)

    def _modules_in(self, code: ast.AST) -> frozenset[str]:
        """The names that a function's imports alone bind: they mean what they would mean above it. One that gives a
        variable of a file another name is none of them."""
        if code not in self._imported:
            assert isinstance(code, Code)
            nodes, all_nodes = tuple(nodes_of(code)), ast.walk(code)
            found = {name: full.rpartition(".")[2] for node in nodes for name, full in imported(node)}
            others = {one for node in all_nodes if isinstance(node, ast.Nonlocal) for one in node.names}
            others |= {one for node in nodes if not isinstance(node, _IMPORTS) for one in bound_by(node)}
            others |= {name for name, last in found.items() if name != last and last in self._homes}
            self._imported[code] = frozenset(found.keys() - others - set(parameters(code)))
        return self._imported[code]

    def is_named(self, place: Place, code: ast.AST) -> bool:
        """Whether a variable has a name in a function; of others than its own object, without an attribute."""
        if place.name in SELF:
            return place.owner is self.family(code) and bool(place.attribute)
        return not place.attribute and self.owner(place.name, code) is place.owner

    def mentions(self, node: ast.AST, code: ast.AST) -> Iterator[tuple[Place, ast.AST]]:
        """The variables that a piece looks at or hands on, each with the node that does; not those it only binds."""
        chain = chain_of(node)
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
            for child in syntax.children(node):
                yield from self.mentions(child, code)

    def mentioned(self, function: FunctionNode) -> tuple[Place, ...]:
        """All that the text of a function looks at or hands on."""
        if function not in self._mentioned:
            body = [function.body] if isinstance(function, ast.Lambda) else function.body
            found = (place for node in body for place, _ in self.mentions(node, function))
            self._mentioned[function] = tuple(dict.fromkeys(found))
        return self._mentioned[function]

    def calls_in(self, node: ast.AST) -> list[ast.Call]:
        """The first call within a chain of attributes and elements."""
        return [one for one in chain_of(node)[1:] if isinstance(one, ast.Call)][:1]


def chain_of(node: ast.AST) -> list[ast.AST]:
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


def _is_own_store(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether a node gives the object of a method another attribute: `self.values = []`."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
        return False
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def stored_in_libraries(tree: ast.Module) -> Iterator[str]:
    """The full names of what a file puts in the place of a library's functions."""
    nodes = tuple(syntax.walk(tree))
    known = dict(pair for node in nodes for pair in imported(node) if not pair[1].startswith("."))
    for node in nodes:
        root, _, rest = _put_in_place(node).partition(".")
        if root in known and rest:
            yield f"{known[root]}.{rest}"


def _put_in_place(node: ast.AST) -> str:
    """The text of what a node gives another value: an attribute, also by `setattr` and `mock.patch`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return ast.unparse(node)
    if not isinstance(node, ast.Call) or not node.args:
        return ""
    name, first = ast.unparse(node.func), node.args[0]
    if name == "setattr" and len(node.args) > 1:
        return f"{ast.unparse(first)}.{getattr(node.args[1], 'value', '')}"
    patches = name.endswith(("mock.patch", "patch.object"))
    return (str(first.value) if isinstance(first, ast.Constant) else ast.unparse(first)) if patches else ""
