"""Which names a function, a class body or a module binds for itself.

In: a node. Out: `Scope`. As Python decides it: a name that is bound anywhere in a function is local to it, unless it
is declared `global` or `nonlocal`. Comprehensions are scopes of their own, except that `:=` binds outside of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tracelens.patch.effects import syntax

Code = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_INNER = (*FUNCTIONS, ast.ClassDef)


@dataclass(frozen=True)
class Scope:
    """`own` are the names that the code binds itself; `module` those it declares `global`."""

    own: frozenset[str]
    module: frozenset[str]
    generator: bool


def scope_of(code: Code) -> Scope:
    """The names of one function, class body or module."""
    own, shared, outer = set(parameters(code)), set[str](), set[str]()
    yields = False
    for node in nodes_of(code):
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            outer.update(node.names)
        elif isinstance(node, (ast.Yield, ast.YieldFrom)):
            yields = True
        own.update(bound_by(node))
    return Scope(frozenset(own - shared - outer), frozenset(shared), yields)


def parameters(code: Code) -> list[str]:
    """The names of the parameters, in their order."""
    return [argument.arg for argument in _arguments(code)]


def _arguments(code: Code) -> Iterator[ast.arg]:
    if isinstance(code, FUNCTIONS):
        given = code.args
        yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
        yield from (one for one in (given.vararg, given.kwarg) if one is not None)


def defaults(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr]]:
    """The parameters that a call may leave out, each with what it stands for then."""
    ordered = [*given.posonlyargs, *given.args]
    yield from zip(ordered[len(ordered) - len(given.defaults) :], given.defaults, strict=True)
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    yield from ((one, value) for one, value in named if value is not None)


def nodes_of(code: Code) -> Iterator[ast.AST]:
    """The nodes that belong to the code itself: inner functions and classes by their heads only, as is evaluated."""
    body = [code.body] if isinstance(code, ast.Lambda) else list(code.body)
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, COMPREHENSIONS):
            waiting += [part for part in syntax.walk(node) if isinstance(part, (ast.NamedExpr, ast.Yield))]
        elif not isinstance(node, _INNER):
            waiting += reversed(list(syntax.children(node)))


def stored_in(node: ast.AST) -> frozenset[str]:
    """The names that are stored anywhere in a node, as a comprehension does for itself."""
    stored = (one for one in syntax.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return frozenset(one.id for one in stored)


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with what it means in full, the dots of a relative one before it."""
    for one in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
        if isinstance(node, ast.ImportFrom):
            yield one.asname or one.name, f"{'.' * node.level}{node.module or ''}.{one.name}"
        else:
            root = one.name.partition(".")[0]
            yield (one.asname, one.name) if one.asname else (root, root)


def bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds itself."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (name for name, _ in imported(node) if name != "*")
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
