"""Before which statements all that waits has run, for who judges by the text of files.

In: the places of a `Question` with the trees of their files. Out: whether a piece of the loop is one of them, and which
calls run a generator that shows the results there alone: who proved that has looked at the rest of the generator.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import Span, function_of, last_name, nodes_in


@dataclass(frozen=True)
class Drains:
    """`spans`: in the file of the loop. `shown`: statements of the generators that the loop runs over."""

    spans: tuple[Span, ...] = ()
    shown: frozenset[ast.AST] = frozenset()
    generators: frozenset[str] = frozenset()

    def holds(self, node: ast.AST) -> bool:
        return any(span.holds(node) for span in self.spans)

    def asked_in(self, piece: ast.AST) -> Iterator[ast.AST]:
        """The calls of the generators in a piece: they look at their object where it is shown, and nowhere else."""
        calls = (node for node in syntax.walk(piece) if isinstance(node, ast.Call))
        return (one for one in calls if isinstance(one.func, ast.Attribute) and last_name(one.func) in self.generators)


def drains(code: ast.AST, own: ast.Module, places: Iterable[tuple[ast.Module, Span]]) -> Drains:
    """Those of a loop in the function `code` of the file `own`."""
    spans: list[Span] = []
    shown: set[ast.AST] = set()
    names: set[str] = set()
    for tree, span in places:
        spans += [span] if tree is own else []
        for node in nodes_in(tree, span):
            function = function_of(tree, node)
            if function is not code and isinstance(function, ast.FunctionDef):
                shown.add(node)
                names.add(function.name)
    return Drains(tuple(spans), frozenset(shown), frozenset(names))
