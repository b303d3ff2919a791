"""Which of its parameters a function of the files puts into which other: `register(progress, losses)`.

In: a `FileText`, and calls. Out: the pairs of arguments of a call of which the one holds the other from then on. One
pass through a function; the functions that it hands its own parameters to are followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_calls import PLAIN, FileCalls, own_parameters
from tracelens.patch.effects.file_text import chain_of
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import Function as FunctionNode

Pairs = frozenset[tuple[str, str]]
_Edges = dict[str, set[str]]


class FileFills:
    """The functions of the files, each looked at once."""

    def __init__(self, calls: FileCalls) -> None:
        self.calls = calls
        self._known: dict[FunctionNode, Pairs] = {}

    def filled(self, call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
        """The arguments of a call into which others are put, each with that which is put in."""
        if len(call.args) + len(call.keywords) < 2:
            return
        for function in self.calls.called(call.func):
            given = _arguments(call, function)
            for into, what in self._pairs(function):
                if into in given and what in given:
                    yield given[into], given[what]

    def _pairs(self, function: FunctionNode) -> Pairs:
        if function not in self._known:
            self._known[function] = frozenset()  # a function that calls itself puts in nothing more
            self._known[function] = (
                frozenset(self._found(function)) if len(own_parameters(function)) > 1 else frozenset()
            )
        return self._known[function]

    def _found(self, function: FunctionNode) -> Iterator[tuple[str, str]]:
        names = frozenset(own_parameters(function))
        made: _Edges = {}
        stored: list[tuple[set[str], set[str]]] = []
        for node in syntax.walk(function):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                aims = node.targets if isinstance(node, ast.Assign) else [node.target]
                for aim in aims:
                    if isinstance(aim, ast.Name):
                        made.setdefault(aim.id, set()).update(_names(node.value))
                    else:
                        stored.append((_names(aim), _names(node.value)))
            elif isinstance(node, (ast.For, ast.comprehension)):
                made.setdefault(last_name(node.target), set()).update(_names(node.iter))
            elif isinstance(node, ast.Call):
                stored += self._stored_by(node)
        for into, what in stored:
            roots, values = _roots(into, made) & names, _roots(what, made) & names
            yield from ((one, other) for one in roots for other in values if one != other)

    def _stored_by(self, call: ast.Call) -> Iterator[tuple[set[str], set[str]]]:
        """What a call puts into what: a method its arguments into its object, a function what its text says."""
        yield from ((_names(into), _names(what)) for into, what in self.filled(call))
        if isinstance(call.func, ast.Attribute) and last_name(call.func) not in PLAIN:
            root = chain_of(call.func)[-1]
            if isinstance(root, ast.Name) and root.id not in self.calls.text.libraries:
                yield {root.id}, set().union(*map(_names, [*call.args, *(one.value for one in call.keywords)]))


def _arguments(call: ast.Call, function: FunctionNode) -> dict[str, ast.expr]:
    """What each parameter gets that is told by its place or its word."""
    given = dict(zip(own_parameters(function), call.args, strict=False))
    return {**given, **{one.arg: one.value for one in call.keywords if one.arg}}


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in syntax.walk(node) if isinstance(part, ast.Name)}


def _roots(names: set[str], made: _Edges) -> set[str]:
    """The names, and those of what they are made of."""
    seen, waiting = set(names), list(names)
    while waiting:
        new = made.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen
