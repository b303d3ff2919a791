"""What a loop over a progress bar gets, told by the text of its function: what the bar goes through, and not the bar.

In: a `FileText`, and what a loop goes through. Out: the expressions whose parts the loop's variables can be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracelens.patch.effects.file_text import FileText, chain_of
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import FUNCTIONS, bound_by, nodes_of
from tracelens.patch.effects.words import words

_BARS = words("tqdm trange tqdm_notebook tnrange")


def content_of_bar(text: FileText, value: ast.expr, code: ast.AST) -> tuple[ast.expr, ...]:
    """What a bar of tqdm goes through that stands under a name of the function; of anything else, the value itself."""
    if not isinstance(value, ast.Name) or not isinstance(code, FUNCTIONS) or value.id not in text.scope(code).own:
        return (value,)
    nodes = list(nodes_of(code))
    made = [one for node in nodes for one in _made(node, value.id)]
    bound = sum(name == value.id for node in nodes for name in bound_by(node))
    if not made or bound != len(made) or not all(_is_bar(text, one) for one in made):
        return (value,)
    return tuple(part for one in made for part in (*one.args, *(word.value for word in one.keywords)))


def _made(node: ast.AST, name: str) -> Iterator[ast.Call]:
    """What gives the name its value: `bar = tqdm(loader)`, `with tqdm(loader) as bar`."""
    aims: list[ast.expr] = []
    value: ast.expr | None = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        aims, value = node.targets, node.value
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        aims, value = [node.optional_vars], node.context_expr
    if isinstance(value, ast.Call) and any(isinstance(one, ast.Name) and one.id == name for one in aims):
        yield value


def _is_bar(text: FileText, call: ast.Call) -> bool:
    root = chain_of(call.func)[-1]
    of_library = isinstance(root, ast.Name) and root.id in text.libraries and root.id not in text.functions
    return of_library and last_name(call.func) in _BARS
