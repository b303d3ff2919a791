"""Which names of a function stand for one thing of a library each time: a bar of tqdm, an optimizer of torch.

In: a `FileText`, and a function. Out: what a loop over such a bar gets, which is what the bar goes through and not the
bar; and which methods are those of such an optimizer, whatever of the project has their names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_text import FileText, chain_of
from tracelens.patch.effects.places import last_name
from tracelens.patch.effects.scopes import FUNCTIONS, bound_by, imported, nodes_of
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

BARS = words("tqdm trange tqdm_notebook tnrange")
"""What tqdm calls them."""


def content_of_bar(text: FileText, value: ast.expr, code: ast.AST) -> tuple[ast.expr, ...]:
    """What a bar of tqdm goes through that stands under a name of the function; of anything else, the value itself."""
    if not isinstance(value, ast.Name) or not isinstance(code, FUNCTIONS) or value.id not in text.scope(code).own:
        return (value,)
    made = _always_made(list(nodes_of(code)), value.id)
    if not made or not all(_is_bar(text, one) for one in made):
        return (value,)
    return tuple(part for one in made for part in (*one.args, *(word.value for word in one.keywords)))


def methods_of_optimizers(text: FileText, code: ast.Module | FunctionNode) -> Iterator[ast.Attribute]:
    """The methods of what is always made by a class of torch.optim, unless the project stores one of that name."""
    nodes = list(nodes_of(code))
    asked = [one for one in nodes if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)]
    for name in text.scope(code).own & {one.value.id for one in asked if isinstance(one.value, ast.Name)}:
        made = _always_made(nodes, name)
        if made and all(_full(text, one, code).startswith("torch.optim.") for one in made):
            own = (one for one in asked if isinstance(one.value, ast.Name) and one.value.id == name)
            yield from (one for one in own if one.attr not in text.stored)


def _full(text: FileText, call: ast.Call, code: ast.AST) -> str:
    """What is called, by its full name, where an import of the file says so."""
    root, _, rest = ast.unparse(call.func).partition(".")
    found = _imports(text.module(code)).get(root, ())
    return f"{found[0]}.{rest}" if len(found) == 1 else ""


@lru_cache(maxsize=16)
def _imports(module: ast.Module) -> Mapping[str, tuple[str, ...]]:
    """By name, all that imports of the file make of it."""
    found: dict[str, dict[str, None]] = {}
    for name, full in (pair for node in syntax.walk(module) for pair in imported(node)):
        found.setdefault(name, {})[full] = None
    return {name: tuple(each) for name, each in found.items()}


def _always_made(nodes: Sequence[ast.AST], name: str) -> list[ast.Call]:
    """The calls that give a name its value; none where something else gives it one as well."""
    made = [one for node in nodes for one in _made(node, name)]
    return made if sum(name == one for node in nodes for one in bound_by(node)) == len(made) else []


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
    return of_library and last_name(call.func) in BARS
