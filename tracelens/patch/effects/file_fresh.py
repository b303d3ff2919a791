"""Which lists and dicts a function makes anew before a loop, and the lines in which somebody may get hold of them.

In: a function with a loop. Out: by name, the first and the last of those lines. What stands above or below them is
about an earlier object of that name, or has not been reached while the loop runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import Loop, path_to
from tracelens.patch.effects.scopes import COMPREHENSIONS, Code, nodes_of

_DISPLAYS = (ast.List, ast.Dict, ast.Set, *COMPREHENSIONS[:3])
Times = Mapping[str, tuple[int, int]]


def fresh(tree: ast.Module, code: Code, loop: Loop) -> Times:
    """The names of a function for lists, dicts and sets that it makes once before the loop, in the same round."""
    out: dict[str, tuple[int, int]] = {}
    way = path_to(tree, loop)
    way = way[way.index(code) :]
    for outer, inner in pairwise(way):
        for name, line in _made_before(outer, inner):
            out[name] = (line, inner.end_lineno or inner.lineno)  # type: ignore[attr-defined]  # statements have both
    stores = [one for one in nodes_of(code) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)]
    shared = {name for one in syntax.walk(tree) if isinstance(one, (ast.Global, ast.Nonlocal)) for name in one.names}
    lines = {name: [one.lineno for one in stores if one.id == name] for name in out.keys() - shared}
    return {
        name: out[name]
        for name, found in lines.items()
        if [line for line in found if out[name][0] <= line <= out[name][1]] == [out[name][0]]
    }


def _made_before(outer: ast.AST, inner: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that get a new list or dict in the block of a statement, above it."""
    for _, block in ast.iter_fields(outer):
        for node in block[: block.index(inner)] if isinstance(block, list) and inner in block else ():
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, _DISPLAYS):
                aims = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from ((one.id, node.lineno) for one in aims if isinstance(one, ast.Name) and len(aims) == 1)


def filled(nodes: Collection[ast.AST], names: Collection[str]) -> Iterator[ast.AST]:
    """The nodes that change one of those lists or dicts itself, and nothing that is in it: `rows.append(x)`."""
    added = {node.target for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        owner: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
        elif isinstance(node, ast.AugAssign):
            owner = node.target
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and node not in added:
            owner = node.value
        if isinstance(owner, ast.Name) and owner.id in names:
            yield node
