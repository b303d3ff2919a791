"""Into which package of the project the helpers of a patched module go, and how that module imports them from there.

In: a parsed file and its project. Out: a `HelperPackage`, or None: then the helpers lie beside the script. In the
package they are found wherever the package is: from any script that imports it, and where it is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from tracelens.patch.code.import_roots import above_package, import_roots, is_started
from tracelens.patch.code.names import dotted
from tracelens.patch.code.source import SourceFile


@dataclass(frozen=True)
class HelperPackage:
    """`name`: as the module imports from it, `lib` or dots; `shown_by`: the import that cannot do without it."""

    folder: Path
    name: str
    shown_by: cst.SimpleStatementLine | None = None


def helper_package(source: SourceFile, before: int, started: bool) -> HelperPackage | None:
    """The package for the helpers that are used from the line `before` on.

    `started`: the file may be the script. Then only relative imports say that it runs as a module: an import by the
    package's name may find an installed copy, which has no helpers.
    """
    if not _is_package(source.path.parent):
        return None
    imports = [(line, *one) for line in _lines(source, before) for one in modules_of(line)]
    relative = [(dots, line) for line, _, dots in imports if dots]
    if relative:
        return _upwards(source, max(dots for dots, _ in relative), relative[0][1])
    if started:
        return None
    outer = above_package(source.path.parent)
    own = source.path.relative_to(outer).parts[0]
    for line, name, _ in imports:
        if name.partition(".")[0] == own and _is_there(source, name, outer):
            return HelperPackage(outer / own, own, line)
    return _upwards(source, 1, None) if _runs_as_a_module(source) else None


def _upwards(source: SourceFile, dots: int, line: cst.SimpleStatementLine | None) -> HelperPackage | None:
    folders = source.path.parents[:dots]
    return HelperPackage(folders[-1], "." * dots, line) if all(map(_is_package, folders)) else None


def _is_there(source: SourceFile, name: str, folder: Path) -> bool:
    """Whether the project has the module of that name in this folder, and not a namesake nearer to the file."""
    there = folder.joinpath(*name.split("."))
    return source.project.module(name, 0, source.path) in (there, there / "__init__.py", there.with_suffix(".py"))


def _runs_as_a_module(source: SourceFile) -> bool:
    """Whether whoever imports the file names its package, and it has no code for the case that it is started."""
    roots = import_roots(source.path, source.project)
    tree = source.project.tree(source.path)
    return bool(roots) and source.path.parent not in roots and tree is not None and not is_started(tree)


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _lines(source: SourceFile, before: int) -> Iterator[cst.SimpleStatementLine]:
    """Lines of the module that always run, above the helpers' first use."""
    for part in source.module.body:
        if isinstance(part, cst.SimpleStatementLine) and source.last_line(part) < before:
            yield part


def modules_of(statement: cst.CSTNode) -> Iterator[tuple[str, int]]:
    """The modules that a line imports, with the dots before their names."""
    for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if isinstance(small, cst.Import):
            yield from ((dotted(alias.name), 0) for alias in small.names)
        elif isinstance(small, cst.ImportFrom):
            yield dotted(small.module), len(small.relative)
