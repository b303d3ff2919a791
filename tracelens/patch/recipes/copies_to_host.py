"""Whether a copy of a batch may go from the GPU to the CPU: without blocking, its memory is garbage until a wait.

In: a loop, and the call that copies its batch. Out: yes or no. Yes where the device may be the CPU although there is a
GPU (an option, a parameter whose default it is), and what the loop goes through may give tensors of the GPU: a class,
generator or function of the project moves them, computes them with a module, or is handed such.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import libcst as cst

from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name, span_of
from tracelens.patch.effects.scopes import nodes_of
from tracelens.patch.loop.loops import BUILTINS
from tracelens.patch.loop.origins import Given, Origins
from tracelens.patch.loop.project_trees import Definition, dotted, full_name, imports, own_tree
from tracelens.patch.recipes.items_on_gpu import NO_DATA, OF_ANYBODY, TO_GPU

_ITERATED, _ITEMS = ("__iter__", "__next__"), ("__getitem__",)
_YIELDS = (ast.Yield, ast.YieldFrom)
_How = Literal["named", "made", "loaded"]
"""How a value comes to the loop: as it is named there, as an item that a class or generator of the project makes, or
as one that a DataLoader puts together."""


def may_be(source: SourceFile, loop: cst.For, call: cst.Call) -> bool:
    tree = own_tree(source)
    copy, items = _at(source, tree, call), _at(source, tree, loop.iter)
    if not isinstance(copy, ast.Call) or items is None or last_name(copy.func) == "cuda":
        return False
    device = next((one.value for one in copy.keywords if one.arg == "device"), copy.args[0] if copy.args else None)
    origins = _origins(source)
    if device is None or _is_gpu(origins, Given(tree, device), frozenset()):
        return False
    return _Givers(origins).gives(Given(tree, items))


def _at(source: SourceFile, tree: ast.Module, node: cst.CSTNode) -> ast.expr | None:
    """The same expression in the tree of Python's own parser."""
    wanted = source.place(node)
    return next((one for one in syntax.walk(tree) if isinstance(one, ast.expr) and span_of(one) == wanted), None)


@lru_cache(maxsize=PARSED_FILES)
def _origins(source: SourceFile) -> Origins:
    started = [] if source.entry is None else [source.entry]
    paths = (source.path, *source.project.around(source.path, *started))
    return Origins(tuple(tree for tree in map(source.project.tree, paths) if tree is not None))


def _is_gpu(origins: Origins, part: Given | None, known: frozenset[ast.expr]) -> bool:
    """Whether a device is certainly a GPU, where there is one."""
    if part is None or part.node in known:
        return False
    tree, node = part.tree, part.node
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) or str(node.value).startswith("cuda")
    inner: Iterable[Given | None] = ()
    if isinstance(node, ast.JoinedStr):
        inner = [Given(tree, one) for one in node.values[:1]]
    elif isinstance(node, ast.IfExp) and _called(tree, node.test) == "torch.cuda.is_available":
        inner = [Given(tree, node.body)]
    elif _called(tree, node) == "int":
        return True  # the number of a GPU
    elif isinstance(node, ast.Call) and _called(tree, node) == "torch.device":
        inner = [Given(tree, one) for one in node.args[:1]]
    elif isinstance(node, (ast.Name, ast.Attribute)):
        inner = origins.given(part)
    answers = [_is_gpu(origins, one, known | {node}) for one in inner]
    return bool(answers) and all(answers)


def _called(tree: ast.Module, node: ast.expr) -> str:
    return full_name(tree, node.func) if isinstance(node, ast.Call) else ""


@dataclass(frozen=True)
class _Givers:
    """Asks once of each expression."""

    origins: Origins
    _known: set[ast.AST] = field(default_factory=set)

    def gives(self, part: Given | None, how: _How = "named") -> bool:
        """Whether a value may hold tensors of the GPU."""
        if part is None:
            return how != "loaded" and self._any_gives()
        if part.node in self._known:
            return False
        self._known.add(part.node)
        if isinstance(part.node, ast.Call):
            return self._call_gives(part.tree, part.node, how)
        if isinstance(part.node, (ast.Name, ast.Attribute)):
            fixed = dotted(part.node) in BUILTINS or last_name(part.node) in self.origins.definitions
            return not fixed and any(self.gives(one, how) for one in self.origins.given(part))
        parts = self._of_result(part.node) or [Given(part.tree, one) for one in _operands(part.node)]
        return any(self.gives(one, how) for one in parts)

    def _of_result(self, node: ast.expr) -> list[Given]:
        """What `train, test = loaders()` gives one of the names, where the functions of that name say so."""
        if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)):
            return []
        number = node.slice.value
        name = last_name(node.value.func) if isinstance(node.value, ast.Call) else ""
        out: list[Given] = []
        for tree, defined in self.origins.definitions.get(name, ()):
            for one in () if isinstance(defined, ast.ClassDef) or _is_gone_through(defined) else _given_back(defined):
                if not (isinstance(one, ast.Tuple) and isinstance(number, int) and number < len(one.elts)):
                    return []
                out.append(Given(tree, one.elts[number]))
        return out

    def _call_gives(self, tree: ast.Module, call: ast.Call, how: _How) -> bool:
        if TO_GPU.search(ast.unparse(call)):
            return True
        name = last_name(call.func)
        usual = isinstance(call.func, ast.Attribute) and name in OF_ANYBODY
        defined = () if usual else self.origins.definitions.get(name, ())
        how = "loaded" if name == "DataLoader" else how
        if any(self._definition_gives(*one, how) for one in defined):
            return True
        if how == "made" and not defined and self._is_object(tree, call.func):
            return True
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        given = [*owner, *call.args, *(one.value for one in call.keywords if one.arg not in NO_DATA)]
        return any(self.gives(Given(tree, one), how) for one in given)

    def _definition_gives(self, tree: ast.Module, node: Definition, how: _How) -> bool:
        """Whether what a class or function of the project makes may be on the GPU."""
        if node in self._known:
            return False
        self._known.add(node)
        if (isinstance(node, ast.ClassDef) or how == "loaded") and TO_GPU.search(ast.unparse(node)):
            return True
        if how == "loaded":
            names = {last_name(one.func) for one in syntax.walk(node) if isinstance(one, ast.Call)} - OF_ANYBODY
            called = [one for name in names for one in self.origins.definitions.get(name, ())]
            return any(self._definition_gives(*one, how) for one in called)
        if not isinstance(node, ast.ClassDef):
            how = "made" if how == "named" and any(isinstance(one, _YIELDS) for one in nodes_of(node)) else how
            return any(self.gives(Given(tree, one), how) for one in _given_back(node))
        iterated = any(isinstance(one, ast.FunctionDef) and one.name in _ITERATED for one in node.body)
        how = "made" if how == "named" and iterated else how
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name in (*_ITERATED, *_ITEMS)]
        bases = [one for base in node.bases for one in self.origins.definitions.get(last_name(base), ())]
        return any(self._definition_gives(*one, how) for one in (*((tree, method) for method in methods), *bases))

    def _any_gives(self) -> bool:
        """The same of all that a loop may go through, where nobody knows through what it goes."""
        every = [one for known in self.origins.definitions.values() for one in known]
        return any(self._definition_gives(*one, "named") for one in every if _is_gone_through(one[1]))

    def _is_object(self, tree: ast.Module, called: ast.expr) -> bool:
        """Whether an object is called, as a module is: `encoder(x)` of a parameter, `self.encoder(x)`."""
        if isinstance(called, ast.Attribute):
            return dotted(called.value) == "self"
        return isinstance(called, ast.Name) and called.id not in BUILTINS and called.id not in imports(tree)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of a value that it may have: neither what it is chosen by, nor the number of an item."""
    aside = [getattr(node, name, None) for name in ("test", "slice")]
    for child in syntax.children(node):
        if isinstance(child, ast.expr) and child not in aside:
            yield child
        elif isinstance(child, ast.comprehension):
            yield child.iter


def _given_back(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """What a function returns or yields."""
    for node in nodes_of(function):
        if isinstance(node, (ast.Return, *_YIELDS)) and node.value is not None:
            yield node.value


def _is_gone_through(node: Definition) -> bool:
    if isinstance(node, ast.ClassDef):
        return any(isinstance(one, ast.FunctionDef) and one.name in _ITERATED for one in node.body)
    return any(isinstance(one, _YIELDS) for one in nodes_of(node))
