"""Where the helpers of a patched file go so that it finds them, and how it imports them from there.

In: a parsed file and its project. Out: a `HelperPackage`, or None: then the helpers lie beside the script. In a
package of the project they are found wherever the package is: from any script that imports it, and where it is
installed. Else they go where the file's own imports, or those of the files that import it, show that Python looks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.import_roots import above_package, import_roots, is_started
from tracelens.patch.code.names import dotted
from tracelens.patch.code.source import PARSED_FILES, SourceFile

_Import = tuple[cst.SimpleStatementLine, str, int]
"""A line, a module that it imports, and the dots before its name."""


@dataclass(frozen=True)
class HelperPackage:
    """`name`: as the module imports from it, `lib` or dots; empty: the folder is where Python looks for modules.
    `shown_by`: the import that cannot do without it."""

    folder: Path
    name: str
    shown_by: cst.SimpleStatementLine | None = None


def helper_package(source: SourceFile, before: int, started: bool) -> HelperPackage | None:
    """The place for the helpers that are used from the line `before` on, where it is not beside the script.

    `started`: the file may be the script. Then only relative imports say that it runs as a module of its package: an
    import by the package's name may find an installed copy, which has no helpers.
    """
    own = source.path.parent
    imports = _imports(source, before)
    relative = [(dots, line) for line, _, dots in imports if dots]
    if relative and _is_package(own):
        return _upwards(source, max(dots for dots, _ in relative), relative[0][1])
    if not started and (package := _by_name(source, imports)) is not None:
        return package
    shown = _shown(source, imports)
    if started or any(root == own for root, _ in shown):
        return None
    if shown:
        return HelperPackage(shown[0][0], "", shown[0][1])
    return None if _may_be_started(source) else _by_importers(source)


def _by_importers(source: SourceFile) -> HelperPackage | None:
    """The place that those show who import a file which shows none itself."""
    roots = import_roots(source.path, source.project)
    if not roots or source.path.parent in roots:
        return None
    return _upwards(source, 1, None) if _is_package(source.path.parent) else HelperPackage(min(roots), "")


def unsure(source: SourceFile, before: int) -> str:
    """Why helpers beside a file may not be found: its imports show another folder in which Python looks for modules, as
    with `python -m tools.train`, or somebody of the project starts or imports it from another one. Empty where nothing
    speaks against it."""
    own, project = source.path.parent, source.project
    imports = _imports(source, before)
    shown = {root for root, _ in _shown(source, imports)}
    if own in shown or (_is_package(own) and any(dots for _, _, dots in imports)):
        return ""
    roots = import_roots(source.path, project)
    imported = bool(roots) and not _may_be_started(source)
    if ((shown or roots) and not imported) or _is_named(source):
        return say(
            "whether Python looks for modules in `{folder}/`, where the helpers lie, is not known", folder=own.name
        )
    return ""


@lru_cache(maxsize=PARSED_FILES)
def _is_named(source: SourceFile) -> bool:
    """Whether a text of the project names the file: `runpy.run_path("scripts/train.py")`."""
    own, project = source.path.parent, source.project
    words = (f"{own.name}.{source.path.stem}", f"{own.name}/{source.path.name}")
    files = (path for path in project.having(source.path.stem) if path != source.path)
    others = (node for path in files for node in project.nodes(path))
    texts = (node.value for node in others if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(word in text for text in texts for word in words)


def _imports(source: SourceFile, before: int) -> list[_Import]:
    return [(line, *one) for line in _lines(source, before) for one in modules_of(line)]


def _shown(source: SourceFile, imports: list[_Import]) -> list[tuple[Path, cst.SimpleStatementLine]]:
    """The folders in which Python looks for modules, each with the import that says so."""
    return [(root, line) for line, name, dots in imports if not dots and (root := _root(source, name)) is not None]


def _by_name(source: SourceFile, imports: list[_Import]) -> HelperPackage | None:
    """The outermost package of the file, where it imports from that by its name."""
    if not _is_package(source.path.parent):
        return None
    outer = above_package(source.path.parent)
    own = source.path.relative_to(outer).parts[0]
    found = (line for line, name, _ in imports if name.partition(".")[0] == own and _is_there(source, name, outer))
    line = next(found, None)
    return HelperPackage(outer / own, own, line) if line is not None else None


def _root(source: SourceFile, name: str) -> Path | None:
    """The folder from which the project's module of that name is found."""
    module = source.project.module(name, 0, source.path)
    if module is None:
        return None
    there = module.parent if module.name == "__init__.py" else module
    return there.parents[name.count(".")]


def _may_be_started(source: SourceFile) -> bool:
    tree = source.project.tree(source.path)
    return tree is None or is_started(tree)


def _upwards(source: SourceFile, dots: int, line: cst.SimpleStatementLine | None) -> HelperPackage | None:
    folders = source.path.parents[:dots]
    return HelperPackage(folders[-1], "." * dots, line) if all(map(_is_package, folders)) else None


def _is_there(source: SourceFile, name: str, folder: Path) -> bool:
    """Whether the project has the module of that name in this folder, and not a namesake nearer to the file."""
    there = folder.joinpath(*name.split("."))
    return source.project.module(name, 0, source.path) in (there, there / "__init__.py", there.with_suffix(".py"))


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
