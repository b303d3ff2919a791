"""Which functions run where a piece of one file runs, told by names alone, for a project that is given up.

In: a `FileText`. Out: functions of the file and of those that it imports. A method is looked for by its name in all
classes, what Python calls by itself by the syntax that makes it do so, and what is handed about may run at any time.
"""

from __future__ import annotations

import ast
import builtins
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_bases import FileBases
from tracelens.patch.effects.file_constants import constants, is_constant
from tracelens.patch.effects.file_made import methods_of_optimizers
from tracelens.patch.effects.file_text import SELF, FileText, Place, chain_of
from tracelens.patch.effects.scopes import FUNCTIONS, defaults, parameters
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

PLAIN = words(
    "item tolist size numel dim format len int float bool str repr range round sum abs isinstance hasattr id type"
    " strip split lower upper startswith endswith join keys strftime time perf_counter is_available device_count"
)
"""Functions and methods whose results hold nothing."""
CALLED = ("__call__", "forward")
"""What runs where an object is called."""
_MADE = ("__new__", "__init__", "__post_init__", "__del__", *CALLED)
_GONE_THROUGH = words("__iter__ __next__ __getitem__ __getitems__ __len__ __aiter__ __anext__")
_BUILTINS = frozenset(dir(builtins))
_METHODS = frozenset(name for made in (list, dict, set, str, deque) for name in dir(made))
"""Methods of Python's own objects: where nothing of the files has such a name, no object is called under it."""
_COMPUTED = words("__add__ __radd__ __iadd__ __sub__ __mul__ __rmul__ __imul__ __truediv__ __eq__ __lt__ __gt__ __le__")
_TEXTS = words("__str__ __repr__ __format__")

_OF_BUILTINS = {
    **dict.fromkeys(("str", "repr", "print", "format"), tuple(_TEXTS)),
    **dict.fromkeys(("len", "list", "next", "iter", "sum", "enumerate", "zip", "tuple"), tuple(_GONE_THROUGH)),
}
_OF_SYNTAX: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], tuple[str, ...]], ...] = (
    (ast.Subscript, ("__getitem__", "__setitem__", "__delitem__", "__missing__")),
    ((ast.With, ast.AsyncWith), ("__enter__", "__exit__", "__aenter__", "__aexit__")),
    ((ast.BinOp, ast.Compare, ast.AugAssign, ast.UnaryOp), (*_COMPUTED, "__contains__")),
    (ast.Attribute, ("__getattr__", "__getattribute__", "__setattr__", "__get__", "__set__")),
    (ast.FormattedValue, tuple(_TEXTS)),
    ((ast.For, ast.comprehension, ast.Starred), tuple(_GONE_THROUGH)),
)
"""The special methods that calls of builtins, and pieces of syntax, may run."""


class FileCalls:
    """The calls of the pieces of a file."""

    def __init__(self, text: FileText) -> None:
        self.text = text
        self._behind: dict[ast.AST, tuple[FunctionNode, ...]] = {}
        self._special: dict[ast.AST, frozenset[str]] = {}

    def called(self, node: ast.AST) -> Iterator[FunctionNode]:
        """The functions that a call, or the mention of a function, may run; by their names."""
        functions = self.text.functions
        if node in self._supers:
            yield from self._supers[node]
        elif isinstance(node, ast.Attribute):
            root = chain_of(node)[-1]
            of_library = isinstance(root, ast.Name) and root.id in self.text.libraries
            if not of_library and node not in self._of_optimizers:
                yield from functions.get(node.attr, ())
                yield from self._methods(self.text.classes.get(node.attr))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from self.text.functions_of_name(node.id)
            yield from self._methods(self.text.classes.get(node.id))
        elif isinstance(node, ast.Call) and not self._is_known(node.func):
            yield from (one for name in CALLED for one in functions.get(name, ()))

    @cached_property
    def _supers(self) -> dict[ast.AST, tuple[FunctionNode, ...]]:
        return dict(self._bases.supers())

    @cached_property
    def _of_optimizers(self) -> frozenset[ast.AST]:
        codes = (one for one in self.text.around if isinstance(one, (ast.Module, *FUNCTIONS)))
        return frozenset(node for code in codes for node in methods_of_optimizers(self.text, code))

    def _is_known(self, called: ast.expr) -> bool:
        """Whether a call is one of a function by its name, and not of an object."""
        root = chain_of(called)[-1]
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        library = isinstance(root, ast.Name) and root.id in self.text.libraries
        method = isinstance(called, ast.Attribute) and name in _METHODS | PLAIN and name not in self._of_objects
        builtin = isinstance(called, ast.Name) and name in _BUILTINS
        return library or method or builtin or name in self.text.functions

    @cached_property
    def _of_objects(self) -> frozenset[str]:
        """The attributes that objects and classes of the files are given."""
        classes = (one for one in self.text.around if isinstance(one, ast.ClassDef))
        return self.text.stored.union(*(self.text.scope(one).own for one in classes))

    def is_of_a_variable(self, call: ast.Call) -> bool:
        """Whether a call is one of what a variable holds, a callback."""
        return isinstance(call.func, (ast.Name, ast.Subscript, ast.Call)) and not (
            self._is_known(call.func) or getattr(call.func, "id", "") in self.text.classes
        )

    def _methods(self, made: ast.ClassDef | None) -> Iterator[FunctionNode]:
        if made is None:
            return
        classes = self._bases.with_bases(made)
        for name in _MADE:
            named = self.text.functions.get(name, ())
            yield from (one for one in named if not classes.isdisjoint(self.text.around[one]))

    @cached_property
    def _bases(self) -> FileBases:
        return FileBases(self.text)

    def behind(
        self, nodes: Iterable[ast.AST], without: frozenset[ast.AST] = frozenset(), but: ast.AST | None = None
    ) -> tuple[FunctionNode, ...]:
        """All functions that run where these nodes do, directly or through one another; `without` what stands there."""
        return self.with_behind((one for node in nodes for one in self._called_in(node)), without, but)

    def with_behind(
        self,
        functions: Iterable[FunctionNode],
        without: frozenset[ast.AST] = frozenset(),
        but: ast.AST | None = None,
    ) -> tuple[FunctionNode, ...]:
        """The functions and all that they call; `but`: a function that does not run there, whoever has its name."""
        out = dict.fromkeys(one for one in functions if one is not but)
        waiting = list(out)
        while waiting:
            node = waiting.pop()
            called = self._called_beside(node, without) if without else self._called_in(node)
            new = [one for one in called if one not in out and one is not but]
            out.update(dict.fromkeys(new))
            waiting += new
        return tuple(out)

    def _called_in(self, node: ast.AST) -> tuple[FunctionNode, ...]:
        if node not in self._behind:
            self._behind[node] = tuple(one for part in syntax.walk(node) for one in self.called(part))
        return self._behind[node]

    def _called_beside(self, node: ast.AST, without: frozenset[ast.AST]) -> tuple[FunctionNode, ...]:
        """What is called in a node outside of the others."""
        if any(one in without for one in syntax.walk(node)):
            children = (one for one in syntax.children(node) if one not in without)
            return (*self.called(node), *(found for one in children for found in self._called_beside(one, without)))
        return self._called_in(node)

    def unseen(self, nodes: Iterable[ast.AST], but: ast.AST | None = None) -> tuple[FunctionNode, ...]:
        """What Python itself, or a library, runs where these nodes do: special methods, backward passes."""
        names: set[str] = set()
        for node in nodes:
            if node not in self._special:
                self._special[node] = frozenset(name for part in syntax.walk(node) for name in _special(part))
            names |= self._special[node]
        return self.with_behind((one for name in names for one in self.text.functions.get(name, ())), but=but)

    def gone_through(self) -> tuple[FunctionNode, ...]:
        """What runs where a loop takes its next batch."""
        return self.with_behind(one for name in _GONE_THROUGH for one in self.text.functions.get(name, ()))

    @cached_property
    def constants(self) -> frozenset[Place]:
        """The variables that stand for what nothing changes."""
        return constants(self.text)

    @cached_property
    def texts(self) -> tuple[FunctionNode, ...]:
        """What runs where an object is written."""
        return self.with_behind(one for name in _TEXTS for one in self.text.functions.get(name, ()))

    @cached_property
    def beside(self) -> tuple[FunctionNode, ...]:
        """Functions that something else is handed: hooks, callbacks, what threads and signals run."""
        called = {one.func for tree in self.text.modules for one in syntax.walk(tree) if isinstance(one, ast.Call)}
        out: dict[FunctionNode, None] = {}
        for tree in self.text.modules:
            for node in syntax.walk(tree):
                for value in _handed(node):
                    if isinstance(value, ast.Lambda):
                        out[value] = None
                    elif isinstance(value, ast.Name) and value not in called:
                        out.update(dict.fromkeys(self.text.functions_of_name(value.id)))
                    elif isinstance(value, ast.Attribute) and value not in called:
                        out.update(dict.fromkeys(self.text.functions.get(value.attr, ())))
        return tuple(out)


def _handed(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        yield from (*node.args, *(one.value for one in node.keywords))
    elif isinstance(node, ast.Assign):
        yield from node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else (node.value,)


def _special(node: ast.AST) -> Iterable[str]:
    """The special methods that a piece of syntax may run."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Attribute):
            return ("backward", "forward") if called.attr in ("backward", "apply") else ()
        return _OF_BUILTINS.get(called.id, ()) if isinstance(called, ast.Name) else ()
    return next((names for kinds, names in _OF_SYNTAX if isinstance(node, kinds)), ())


def is_around(text: FileText, function: FunctionNode, code: ast.AST) -> bool:
    """Whether a function is the one that has the code, or stands around it."""
    return function is code or function in text.around[code]


def own_parameters(function: FunctionNode) -> list[str]:
    """The parameters without the object of a method."""
    names = parameters(function)
    return names[1:] if names[:1] and names[0] in SELF else names


def defaulted(function: ast.AST) -> frozenset[str]:
    """The parameters that hold an object that the definition gave them: a number is none."""
    if not isinstance(function, FUNCTIONS):
        return frozenset()
    return frozenset(one.arg for one, value in defaults(function.args) if not is_constant(value))
