"""From which folders a project imports one of its files, and whether it may be started by itself.

In: a file and its project. Out: folders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tracelens.patch.effects import syntax
from tracelens.patch.effects.project import Project, modules_named


def import_roots(path: Path, project: Project) -> frozenset[Path]:
    """The folders that import statements of the project name `path` from."""
    return frozenset(root for importer in project.importers(path) for root in _roots(path, importer, project))


def is_started(tree: ast.Module) -> bool:
    """Whether it has code for the case that it is started: `if __name__ == "__main__"`."""
    return any(
        isinstance(part, ast.Name) and part.id == "__name__"
        for node in tree.body
        if isinstance(node, ast.If)
        for part in syntax.walk(node.test)
    )


def _roots(path: Path, importer: Path, project: Project) -> Iterator[Path]:
    for name, dots in (pair for node in project.nodes(importer) for pair in modules_named(node)):
        if project.module(name, dots, importer) == path:
            yield above_package(path.parent) if dots else path.parents[name.count(".")]


def above_package(folder: Path) -> Path:
    """The innermost folder around `folder`, or itself, that is no package."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder
