"""Which files under a folder are training scripts, and which of their lines run in every batch.

In: a folder of other people's code. Out: paths, and for one file a `Batches`. Uses Python's own parser and knows
nothing of the patcher, so that it can tell what the patcher missed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = frozenset({"test", "tests", "testing", "site-packages", "build", ".git", "__pycache__"})
_STEP_OWNER = re.compile(r"opt|scaler|^o$", re.IGNORECASE)
_MENTIONS = (b"torch", b"backward(")

Loop = ast.For | ast.While
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def scripts(folder: Path) -> list[Path]:
    """Python files that mention torch and go backward in a loop, or in a function that makes one step."""
    return [path for path in sorted(folder.rglob("*.py")) if _is_script(path, folder)]


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


def _is_script(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    if SKIPPED_FOLDERS & {part.lower() for part in parts[:-1]} or path.name.startswith("test_") or not path.is_file():
        return False
    data = path.read_bytes()
    if not all(word in data for word in _MENTIONS):
        return False
    tree = parsed(data)
    if tree is None:
        return True  # perhaps Python 2: to be declined, not to be overlooked
    found = batches(tree)
    return bool(found.loops or found.functions)


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
