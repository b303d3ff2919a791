"""Which lines of a file run once per batch of a training loop.

In: a file's tree, by Python's own parser. Out: a `Batches`. A loop trains if it goes backward or makes an optimizer's
step itself; a function that goes backward without such a loop is one step of a loop elsewhere.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

_STEP_OWNER = re.compile(r"opt|scaler|^o$", re.IGNORECASE)

Loop = ast.For | ast.While
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Batches:
    """The parts of a file that run once per batch."""

    loops: tuple[Loop, ...]
    functions: tuple[ast.FunctionDef, ...]
    """Step functions: they go backward, the loop is in another function or file."""

    def __contains__(self, line: object) -> bool:
        parts = (*self.loops, *self.functions)
        return isinstance(line, int) and any(part.lineno <= line <= (part.end_lineno or 0) for part in parts)


def parsed(data: bytes) -> ast.Module | None:
    """The tree of a file; None if it is no Python of this version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return None


def batches(tree: ast.Module) -> Batches:
    """Loops that themselves go backward or make an optimizer's step, and step functions without such a loop."""
    loops = tuple(node for node in ast.walk(tree) if isinstance(node, Loop) and _trains(node))
    inside = {id(part) for loop in loops for part in ast.walk(loop)}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and id(node) not in inside)
    steps = tuple(f for f in functions if _trains(f) and f.name not in ("backward", "forward", "__init__"))
    return Batches(loops, steps)


def own(node: ast.AST, *, through_loops: bool) -> Iterator[ast.AST]:
    """Everything below a node, without functions defined inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES) or (isinstance(child, Loop) and not through_loops):
            continue
        yield child
        yield from own(child, through_loops=through_loops)


def _trains(node: Loop | ast.FunctionDef) -> bool:
    calls = [part.func for part in own(node, through_loops=False) if isinstance(part, ast.Call)]
    attributes = [func for func in calls if isinstance(func, ast.Attribute)]
    if any(func.attr == "backward" for func in attributes):
        return True
    steps = [func.value for func in attributes if func.attr == "step"]
    return isinstance(node, Loop) and any(_STEP_OWNER.search(_last_name(owner)) for owner in steps)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
