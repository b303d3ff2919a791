"""Where a file takes a builtin for a value that this package judges by its word where it is called: `look = locals`.

In: a parsed file, and the words. Out: the mentions of these builtins that are no call. Under another name such a
function does the same, and no text says so; so whoever takes one is told here, whatever becomes of it afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracelens.patch.effects import syntax
from tracelens.patch.effects.scopes import COMPREHENSIONS, FUNCTIONS, scope_of, stored_in

ALL_BUILTINS = "__builtins__"


def kept(tree: ast.Module, words: frozenset[str]) -> Iterator[ast.Name]:
    """Each mention of one of these builtins that is not the function of a call."""
    yield from _kept(tree, words - scope_of(tree).own)


def _kept(node: ast.AST, words: frozenset[str]) -> Iterator[ast.Name]:
    """`words`: those that still mean the builtin in this scope."""
    for part in syntax.children(node):
        if isinstance(part, ast.Name):
            is_called = isinstance(node, ast.Call) and node.func is part and part.id != ALL_BUILTINS
            if part.id in words and isinstance(part.ctx, ast.Load) and not is_called:
                yield part
        elif isinstance(part, FUNCTIONS):
            yield from _of_function(part, words)
        elif isinstance(part, COMPREHENSIONS):
            yield from _kept(part, words - stored_in(part))
        else:  # the names of a class body are not those of its methods
            yield from _kept(part, words)


def _of_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, words: frozenset[str]
) -> Iterator[ast.Name]:
    """Its head is evaluated where it stands, its body with its own names."""
    inner = words - scope_of(node).own
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    yield from _kept(ast.Module([ast.Expr(one) if isinstance(one, ast.expr) else one for one in body], []), inner)
    heads = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
    heads += [] if isinstance(node, ast.Lambda) else node.decorator_list
    yield from _kept(ast.Tuple(heads, ast.Load()), words)
