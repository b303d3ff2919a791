"""Functions of torch that a project replaces: a patch would call something else, and the script's own lines do.

In: the text of one file. Out: the full names that it assigns to, or patches by `setattr` or `mock.patch`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from tracelens.patch.effects.project import parsed

_USED = re.compile(r"torch\.(cuda|accelerator|Tensor|autograd|utils\.data)\.|torch\.(stack|Tensor)$")
"""What patches rely on: waits, events and streams, reads of tensors, loaders."""
_SETTINGS = re.compile(r"\.(backends|config|_[a-z]\w*)\b")
"""What torch itself wants to be assigned to, and its private parts, which old scripts mend."""
_SETTERS = frozenset({"setattr", "mock.patch.object", "patch.object", "monkeypatch.setattr"})
_PATCHES = frozenset({"mock.patch", "patch", "unittest.mock.patch"})


@lru_cache(maxsize=256)
def replaced(text: str) -> str:
    """The full name of the first function of torch that the file replaces; empty where it replaces none."""
    tree = parsed(text) if "torch" in text else None
    if tree is None:
        return ""
    imports = dict(_imports(tree))
    found = (name for node in ast.walk(tree) for name in _targets(node, imports))
    return next((name for name in found if _USED.match(name) and not _SETTINGS.search(name)), "")


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.asname, one.name) for one in node.names if one.asname)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)


def _targets(node: ast.AST, imports: dict[str, str]) -> Iterator[str]:
    if isinstance(node, (ast.Assign, ast.AnnAssign)) and not isinstance(node.value, (ast.Constant, type(None))):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (_full(target, imports) for target in targets if isinstance(target, ast.Attribute))
    elif isinstance(node, ast.Call) and node.args:
        called, first = ast.unparse(node.func), node.args[0]
        name = node.args[1] if len(node.args) > 1 else None
        if called in _SETTERS and isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield f"{_full(first, imports)}.{name.value}"
        elif called in _PATCHES and isinstance(first, ast.Constant):
            yield str(first.value)


def _full(node: ast.expr, imports: dict[str, str]) -> str:
    """A name with its module: `cuda.synchronize` after `from torch import cuda` is `torch.cuda.synchronize`."""
    first, dot, rest = ast.unparse(node).partition(".")
    return f"{imports.get(first, first)}{dot}{rest}"
