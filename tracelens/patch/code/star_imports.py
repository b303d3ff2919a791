"""What `from helpers import *` brings into a file: the names that the project's file imports and defines itself.

In: a parsed file and the project. Out: names with what they mean, as an import of each by its own name would give
them. A star of a library brings nothing here: its names are not known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import libcst as cst

from tracelens.patch.code.names import dotted, of_kinds
from tracelens.patch.effects import syntax
from tracelens.patch.effects.project import Project
from tracelens.patch.effects.scopes import imported, stored_in


def starred(module: cst.Module) -> tuple[cst.ImportFrom, ...]:
    """The imports of a file that have a star."""
    found = of_kinds(module, (cst.ImportFrom,))
    return tuple(one for one in found if isinstance(one, cst.ImportFrom) and isinstance(one.names, cst.ImportStar))


def brought(stars: tuple[cst.ImportFrom, ...], project: Project, importer: Path) -> Mapping[str, str]:
    """The names that the stars bring, the last of them first asked."""
    out: dict[str, str] = {}
    for star in stars:
        base = dotted(star.module) if star.module is not None else ""
        out |= _exported(project, base, len(star.relative), importer, frozenset({importer}))
    return out


def _exported(project: Project, base: str, dots: int, importer: Path, seen: frozenset[Path]) -> dict[str, str]:
    path = project.module(base, dots, importer)
    tree = project.tree(path) if path is not None and path not in seen else None
    if path is None or tree is None:
        return {}
    out: dict[str, str] = {}
    prefix = "." * dots + base
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            out |= _exported(project, node.module or "", node.level, path, seen | {path})
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            out |= dict(imported(node))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            out[node.name] = f"{prefix}.{node.name}"
        else:
            bound = stored_in(node)
            out = {name: full for name, full in out.items() if name not in bound}
    listed = _listed(tree)
    return {name: full for name, full in out.items() if (name in listed if listed is not None else name[:1] != "_")}


def _listed(tree: ast.Module) -> frozenset[str] | None:
    """The names in `__all__`; none are known where it is put together."""
    for node in syntax.walk(tree):
        if isinstance(node, ast.Name) and node.id == "__all__":
            break
    else:
        return None
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(getattr(aim, "id", "") == "__all__" for aim in statement.targets):
            parts = statement.value.elts if isinstance(statement.value, (ast.List, ast.Tuple)) else []
            return frozenset(str(part.value) for part in parts if isinstance(part, ast.Constant))
    return frozenset()
