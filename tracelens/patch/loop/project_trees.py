"""The files that can be behind a call in one file, by Python's own parser.

In: a parsed file. Out: trees by path: the file itself, the script that was started, and what these import of their
project. Nothing of the project's effects is asked for: that takes much longer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.project import Project


@lru_cache(maxsize=PARSED_FILES)
def project_trees(source: SourceFile) -> Mapping[Path, ast.Module]:
    """The file first, then the script that was started, then what they import."""
    project = Project(source.root, {source.path: source.text})
    started = dict.fromkeys((source.path, *([] if source.entry is None else [source.entry])))
    files = (project.file(path) for path in (*started, *project.imported(*started)))
    return {file.path: file.tree for file in files if file is not None and file.tree is not None}


def own_tree(source: SourceFile) -> ast.Module:
    """The tree of the file itself."""
    return project_trees(source)[source.path]


def is_started(source: SourceFile) -> bool:
    """Whether the file is the script that was started."""
    return source.entry is None or source.entry == source.path


@lru_cache(maxsize=PARSED_FILES)
def parents(tree: ast.Module) -> Mapping[ast.AST, ast.AST]:
    """The node above each node."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def above(tree: ast.Module, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes above one, the nearest first."""
    known = parents(tree)
    current = known.get(node)
    while current is not None:
        yield current
        current = known.get(current)


def dotted(node: ast.AST | None) -> str:
    """`self.model` of a chain of names, "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


@lru_cache(maxsize=PARSED_FILES)
def _imports(tree: ast.Module) -> Mapping[str, str]:
    """What the names stand for that a file imports anywhere."""
    out: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {
                one.asname or one.name.partition(".")[0]: one.name if one.asname else one.name.partition(".")[0]
                for one in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            out |= {one.asname or one.name: f"{'.' * node.level}{node.module or ''}.{one.name}" for one in node.names}
    return out


def full_name(tree: ast.Module, node: ast.AST | None) -> str:
    """`torch.optim.Adam` for `optim.Adam` after `from torch import optim`; "" of what is no name."""
    root, dot, rest = dotted(node).partition(".")
    return f"{_imports(tree).get(root, root)}{dot}{rest}"
