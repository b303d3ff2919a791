"""The files that can be behind a call in one file, by Python's own parser.

In: a parsed file. Out: trees by path: the file itself, the script that was started, and what these import of their
project. Nothing of the project's effects is asked for: that takes much longer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import path_to
from tracelens.patch.effects.scopes import imported

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def own_tree(source: SourceFile) -> ast.Module:
    """The tree of the file itself."""
    return source.trees[source.path]


def is_started(source: SourceFile) -> bool:
    """Whether the file is the script that was started."""
    return source.entry is None or source.entry == source.path


@lru_cache(maxsize=PARSED_FILES)
def definitions(source: SourceFile) -> Mapping[str, tuple[Definition, ...]]:
    """By name, the functions, methods and classes of the files that run together."""
    out: dict[str, tuple[Definition, ...]] = {}
    for tree in source.trees.values():
        for node in syntax.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                out[node.name] = (*out.get(node.name, ()), node)
    return out


def above(tree: ast.Module, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes above one, the nearest first."""
    return islice(reversed(path_to(tree, node)), 1, None)


def dotted(node: ast.AST | None) -> str:
    """`self.model` of a chain of names, "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


@lru_cache(maxsize=PARSED_FILES)
def imports(tree: ast.Module) -> Mapping[str, str]:
    """What the names stand for that a file imports anywhere."""
    return dict(pair for node in syntax.walk(tree) for pair in imported(node))


def full_name(tree: ast.Module, node: ast.AST | None) -> str:
    """`torch.optim.Adam` for `optim.Adam` after `from torch import optim`; "" of what is no name."""
    root, dot, rest = dotted(node).partition(".")
    return f"{imports(tree).get(root, root)}{dot}{rest}"
