"""Where the helpers of a patched file go so that it finds them, and how it imports them from there.

In: a parsed file and its project. Out: a `HelperPlace`, or None: then the helpers lie beside the script. Where the
file's own imports show where Python looks, they lie there, in a package for all its modules. Else they lie beside the
file and are imported in either way in which it can be loaded: as a module of its folder, and from its folder.
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

_BY_PATH = ("run_path(", "spec_from_file_location(", "SourceFileLoader(", "exec(")
_Import = tuple[cst.SimpleStatementLine, str, int]
"""A line, a module that it imports, and the dots before its name."""


@dataclass(frozen=True)
class HelperPlace:
    """`name`: as the module imports from it, `lib` or dots; empty: the folder is where Python looks for modules.
    `shown_by`: the import that cannot do without it. `or_alone`: the file may be loaded as a module of that package or
    as none, as by `python -m tools.train` and `python tools/train.py`."""

    folder: Path
    name: str
    shown_by: cst.SimpleStatementLine | None = None
    or_alone: bool = False


def helper_place(source: SourceFile, before: int, script: Path) -> HelperPlace | None:
    """The place for the helpers that are used from the line `before` on, where it is not beside the script.

    Where the file may be the script, only relative imports say that it runs as a module of its package: an import by
    the package's name may find an installed copy, which has no helpers.
    """
    own, project = source.path.parent, source.project
    imports = _imports(source, before)
    relative = [(dots, line) for line, _, dots in imports if dots]
    if relative:
        dots = max(dots for dots, _ in relative)
        return HelperPlace(source.path.parents[dots - 1], "." * dots, relative[0][1])
    roots = import_roots(source.path, project)
    is_script = source.path == script and (not roots or _may_be_started(source))
    if not is_script and (package := _by_name(source, imports)) is not None:
        return package
    shown = _shown(source, imports)
    if any(root == own for root, _ in shown):
        return None if source.path == script else HelperPlace(own, "", shown[0][1])
    if shown and not is_script:
        return HelperPlace(shown[0][0], "", shown[0][1])
    if is_script and not shown and roots <= {own} and not _is_package(own) and not _is_named(source, "."):
        return None
    return HelperPlace(own, ".", None, or_alone=True)


def unsure(source: SourceFile) -> str:
    """Why helpers beside a file may not be found: somebody of the project may run it by its path from another folder,
    as `runpy.run_path` does, and pytest runs its files so. Empty where nothing speaks against it."""
    tests = source.path.stem.startswith("test_") or source.path.stem.endswith(("_test", "conftest"))
    if not tests and not _is_named(source, "/") and not _is_loaded(source):
        return ""
    folder = source.path.parent.name
    return say("whether Python looks for modules in `{folder}/`, where the helpers lie, is not known", folder=folder)


@lru_cache(maxsize=PARSED_FILES)
def _is_named(source: SourceFile, joined: str) -> bool:
    """Whether a text of the project names the file: `runpy.run_path("scripts/train.py")`, "scripts.train"."""
    own, project = source.path.parent, source.project
    word = f"{own.name}.{source.path.stem}" if joined == "." else f"{own.name}/{source.path.name}"
    files = (path for path in project.having(source.path.stem) if path != source.path)
    others = (node for path in files for node in project.nodes(path))
    texts = (node.value for node in others if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(word in text for text in texts)


@lru_cache(maxsize=PARSED_FILES)
def _is_loaded(source: SourceFile) -> bool:
    """Whether files of the project are run by their paths from another folder, and this may be one of them."""
    own, project = source.path, source.project
    loading = {path for word in _BY_PATH for path in project.having(word) if path.parent != own.parent}
    return bool(loading) and not import_roots(own, project)


def _imports(source: SourceFile, before: int) -> list[_Import]:
    return [(line, *one) for line in _lines(source, before) for one in modules_of(line)]


def _shown(source: SourceFile, imports: list[_Import]) -> list[tuple[Path, cst.SimpleStatementLine]]:
    """The folders in which Python looks for modules, each with the import that says so."""
    return [(root, line) for line, name, dots in imports if not dots and (root := _root(source, name)) is not None]


def _by_name(source: SourceFile, imports: list[_Import]) -> HelperPlace | None:
    """The outermost package of the file, where it imports from that by its name."""
    if not _is_package(source.path.parent):
        return None
    outer = above_package(source.path.parent)
    own = source.path.relative_to(outer).parts[0]
    found = (line for line, name, _ in imports if name.partition(".")[0] == own and _is_there(source, name, outer))
    line = next(found, None)
    return HelperPlace(outer / own, own, line) if line is not None else None


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
