"""What the classes of a file and of those that it imports are made of, told by the names of their bases.

In: a `FileText`. Out: for each `super().f` the methods of that name in classes that may come behind its own, the bases
of all that is made of it; and what a class may have inherited. Where a base is no name of a class or of an import,
nothing is said of the expression, and any class may be behind.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_text import FileText, chain_of
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.scopes import imported

_Related = Mapping[ast.ClassDef, Iterable[ast.ClassDef]]


class FileBases:
    """The classes of the files, and what they are made of."""

    def __init__(self, text: FileText) -> None:
        self._text = text
        self._every = [one for one in text.around if isinstance(one, ast.ClassDef)]
        self._bases = _bases(text, self._every)
        names = {one.name for one in self._every}
        self._plain = {one for one in self._every if all(_is_plain(text, base, names) for base in one.bases)}
        """Those whose bases are told by their names."""
        self._with_bases: dict[ast.ClassDef, set[ast.ClassDef]] = {}

    def supers(self) -> Iterator[tuple[ast.AST, tuple[FunctionNode, ...]]]:
        """The expressions, each with what it can mean."""
        functions, around = self._text.functions, self._text.around
        made_of: dict[ast.ClassDef, list[ast.ClassDef]] = {one: [] for one in self._every}
        for one in self._every:
            for base in self._bases[one]:
                made_of[base].append(one)
        for made in self._every:
            behind = _related(_related({made}, made_of), self._bases)
            for node in syntax.walk(made) if behind <= self._plain else ():
                owner = node.value if isinstance(node, ast.Attribute) else None
                if isinstance(node, ast.Attribute) and isinstance(owner, ast.Call) and last_name(owner.func) == "super":
                    yield node, tuple(one for one in functions.get(node.attr, ()) if around[one][-1] in behind)

    def with_bases(self, made: ast.ClassDef) -> set[ast.ClassDef]:
        """A class and all that it may be made of: a constructor may be inherited."""
        if made not in self._with_bases:
            behind = _related({made}, self._bases)
            self._with_bases[made] = behind if behind <= self._plain else set(self._every)
        return self._with_bases[made]


def _bases(text: FileText, every: Iterable[ast.ClassDef]) -> dict[ast.ClassDef, list[ast.ClassDef]]:
    """By class, those that its bases can mean, also under a name that an import gives them."""
    names: dict[str, set[str]] = {}
    for tree in text.modules:
        for name, full in (pair for node in syntax.walk(tree) for pair in imported(node)):
            names.setdefault(name, set()).add(full.rpartition(".")[2])
    by_name: dict[str, list[ast.ClassDef]] = {}
    for one in every:
        by_name.setdefault(one.name, []).append(one)
    told = {one: {last_name(base) for base in one.bases} for one in every}
    means = {one: found.union(*(names.get(name, ()) for name in found)) for one, found in told.items()}
    return {one: [base for name in sorted(found) for base in by_name.get(name, ())] for one, found in means.items()}


def _related(start: set[ast.ClassDef], next_of: _Related) -> set[ast.ClassDef]:
    """The classes, and all that follow from them."""
    out, waiting = set(start), list(start)
    while waiting:
        new = [one for one in next_of[waiting.pop()] if one not in out]
        out.update(new)
        waiting += new
    return out


def _is_plain(text: FileText, base: ast.expr, classes: set[str]) -> bool:
    """Whether a base is a class by its own name, or comes from an import, or is one of Python's."""
    root = chain_of(base)[-1]
    name = root.id if isinstance(root, ast.Name) and isinstance(base, (ast.Name, ast.Attribute)) else ""
    if name in text.given_names:  # `Base = wrap(Base)`
        return False
    if name in classes or hasattr(builtins, name):
        return base is root
    return name in text.libraries | text.own_modules
