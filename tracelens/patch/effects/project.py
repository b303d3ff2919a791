"""The files of a project, each parsed once by Python's own parser, and which module each import means.

In: the project's root, the started script, and the text of files that differ from the disk. Out: `Project`. Bounded in
the number and the size of files; a file that cannot be parsed is kept without a tree, and counts as unknown.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tracelens.patch.effects import syntax
from tracelens.patch.effects.helper_file import RUNTIME, is_helper_file

MAX_FILES = 1000
MAX_FOLDERS = 500
MAX_BYTES = 1 << 20
"""What is searched of a project: training projects have fewer and shorter files; data folders may hold anything."""
_NOT_OURS = frozenset({"site-packages", "node_modules", "__pycache__", "tracelens-runs", "build", "dist"})
_TEST_NAME = re.compile(r"(test_\w+|\w+_test|conftest)\.py")
_TEST_IMPORT = re.compile(r"^(import|from) (pytest|unittest)\b", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class ProjectFile:
    """One file; `tree` is None where Python's parser cannot read it."""

    path: Path
    shown: str
    text: str
    tree: ast.Module | None


@dataclass(frozen=True, eq=False)
class Project:
    """`changed` holds the text of files as they are in memory rather than on the disk."""

    root: Path
    changed: Mapping[Path, str] = field(default_factory=dict)
    _files: dict[Path, ProjectFile | None] = field(default_factory=dict)
    _modules: dict[tuple[str, int, Path], Path | None] = field(default_factory=dict)
    _imported: dict[Path, tuple[Path, ...]] = field(default_factory=dict)

    def file(self, path: Path) -> ProjectFile | None:
        """The parsed file, None where it cannot be read or is too large; an empty one for a folder of modules."""
        if path not in self._files:
            text = "" if path.is_dir() else self._text(path)
            shown = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.name
            self._files[path] = None if text is None else ProjectFile(path, shown, text, parsed(text))
        return self._files[path]

    def tree(self, path: Path) -> ast.Module | None:
        """The tree of a file; None where Python's parser cannot read it."""
        file = self.file(path)
        return None if file is None else file.tree

    def nodes(self, path: Path) -> Sequence[ast.AST]:
        """All nodes of a file; none where it has no tree."""
        tree = self.tree(path)
        return () if tree is None else syntax.walk(tree)

    def module(self, name: str, dots: int, importer: Path) -> Path | None:
        """The project's file that an import in `importer` means; None for a library."""
        asked = (name, dots, importer)
        if asked not in self._modules:
            self._modules[asked] = self._find_module(name, dots, importer)
        return self._modules[asked]

    def _find_module(self, name: str, dots: int, importer: Path) -> Path | None:
        parts = [part for part in name.split(".") if part]
        for base in self._bases(dots, importer):
            folder = base.joinpath(*parts)
            if not base.is_relative_to(self.root):
                continue
            for candidate in (
                (folder / "__init__.py", folder.with_suffix(".py")) if parts else (folder / "__init__.py",)
            ):
                if self._exists(candidate):
                    return None if self._is_helper_file(candidate) else candidate
            if (parts or dots) and folder.is_dir() and any(folder.glob("*.py")):
                return folder
        return None

    def _is_helper_file(self, path: Path) -> bool:
        return path.stem == RUNTIME and is_helper_file(self._text(path) or "")

    def imported(self, *started: Path) -> tuple[Path, ...]:
        """The project's files that these import, directly or through others, and those of them but the first."""
        known = dict.fromkeys(started)
        waiting = list(known)
        while waiting and len(known) <= MAX_FILES:
            for found in self._imports(waiting.pop(0)):
                if found not in known and self._exists(found):
                    known[found] = None
                    waiting.append(found)
        return tuple(known)[1:]

    def _imports(self, importer: Path) -> tuple[Path, ...]:
        """The project's files that one imports itself."""
        if importer not in self._imported:
            named = (pair for node in self.nodes(importer) for pair in modules_named(node))
            found = dict.fromkeys(self.module(name, dots, importer) for name, dots in named)
            self._imported[importer] = tuple(one for one in found if one is not None)
        return self._imported[importer]

    def importers(self, path: Path) -> tuple[Path, ...]:
        """The files that mention the module of `path`, directly or through one another; the nearest first.

        Tests are left out: no training runs below one, and they replace functions of torch as they like.
        """
        out: dict[Path, None] = {}
        waiting = [path]
        while waiting:
            name = _module_name(waiting.pop(0))
            pattern = re.compile(rf"^\s*(?:from|import)\b[^#\n]*(?<![\w]){re.escape(name)}\b", re.MULTILINE)
            for other in self.paths:
                text = self._text(other) if other not in out and other != path else None
                if text is not None and pattern.search(text) and not _is_test(other, text):
                    out[other] = None
                    waiting.append(other)
        return tuple(out)

    def around(self, path: Path, *started: Path) -> tuple[Path, ...]:
        """The other files that can run when this one does: what imports it, and all that these and it import."""
        importers = self.importers(path)
        near = dict.fromkeys((*importers, *started, *self.imported(path, *started, *importers)))
        return tuple(one for one in near if one != path)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """All Python files below the root, as far as the bounds allow."""
        return tuple(python_files(self.root))[:MAX_FILES]

    def having(self, word: str) -> Iterator[Path]:
        """The files whose text has a word: of the others no tree is needed."""
        return (path for path in self.paths if word in (self._text(path) or ""))

    @cached_property
    def complete(self) -> bool:
        """Whether no bound left out a file."""
        return len(self.paths) < MAX_FILES

    def _bases(self, dots: int, importer: Path) -> list[Path]:
        if dots:
            return [importer.parents[dots - 1]] if dots <= len(importer.parents) else []
        return list(
            dict.fromkeys([importer.parent, *(p for p in importer.parents if p.is_relative_to(self.root)), self.root])
        )

    def _exists(self, path: Path) -> bool:
        return path in self.changed or path.is_file()

    def _text(self, path: Path) -> str | None:
        if path in self.changed:
            return self.changed[path]
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            return path.read_bytes().decode("utf-8", errors="replace")
        except OSError:
            return None


def parsed(text: str | bytes) -> ast.Module | None:
    """The tree of a file, without the parser's warnings: they are about the user's code. None where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix("\ufeff") if isinstance(text, str) else text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def modules_named(node: ast.AST) -> Iterator[tuple[str, int]]:
    """The modules that an import may mean, with the dots before each; `from a import b` may mean `a.b` as well."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, 0) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        yield base, node.level
        yield from ((f"{base}.{alias.name}".lstrip("."), node.level) for alias in node.names)


def _is_test(path: Path, text: str) -> bool:
    """Whether a file holds tests of the project: by its name, or its folder's, and by what it imports."""
    named = bool(_TEST_NAME.fullmatch(path.name)) or path.parent.name in ("test", "tests")
    return named and bool(_TEST_IMPORT.search(text))


def _module_name(path: Path) -> str:
    return path.parent.name if path.name == "__init__.py" else path.stem


def python_files(root: Path) -> Iterator[Path]:
    """The Python files below a folder, as far as they are searched; a folder of data is left after these."""
    seen = 0
    for number, (folder, folders, names) in enumerate(os.walk(root)):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and not name.startswith("."))
        found = [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
        yield from found
        seen += len(found)
        if seen >= MAX_FILES or number >= MAX_FOLDERS:
            return
