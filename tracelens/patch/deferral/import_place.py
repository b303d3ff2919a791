"""Where a patched file imports the helpers: below its import of torch, as sorted imports have it.

In: a parsed file. Out: the splice. What a script sets before it imports torch (`os.environ[…]`) stays before that, so
nothing above its own import of torch will do.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import loop_lines
from tracelens.patch.deferral.helper_place import HelperPlace, modules_of
from tracelens.patch.files.vendored import MODULE
from tracelens.patch.loop.loops import own_nodes

_EITHER = """if __package__:
{indent}from . import {module}
else:  # this file was not loaded as a part of a package
{indent}import {module}"""


def import_splice(
    source: SourceFile, before: int, installed: bool = False, place: HelperPlace | None = None
) -> Splice | None:
    """`import tracelens_runtime` among the imports at the top; None where it is there already.

    `before`: the line of the first use. `installed`: from the TraceLens that is installed where the script runs,
    instead of the file beside it. `place`: where the file is that has them, if not beside the script.
    """
    if MODULE in source.names.imports:
        return None
    if place is not None and place.or_alone:
        text = _EITHER.format(indent=source.module.default_indent, module=MODULE)
        return loop_lines.whole_line(source, _line(source, before, installed=True), text)
    if place is not None:
        text = f"from {place.name} import {MODULE}" if place.name else f"import {MODULE}"
        return loop_lines.whole_line(source, _beside(source, before, place), text)
    text = f"from tracelens import runtime as {MODULE}" if installed else f"import {MODULE}"
    return loop_lines.whole_line(source, _line(source, before, installed), text)


def _beside(source: SourceFile, before: int, place: HelperPlace) -> int:
    """The line of the import that shows the place: what it needs, as a path, is set by then. Below torch it is ours,
    and below it where comments stand above."""
    shown_by, usual = place.shown_by, _line(source, before, installed=True)
    torch = next((source.line(part) for part in source.module.body if _imports_torch(part)), before)
    if shown_by is None or source.line(shown_by) < torch:
        return usual
    commented = any(line.comment for line in shown_by.leading_lines)
    return source.last_line(shown_by) + 1 if commented else source.line(shown_by)


def _line(source: SourceFile, before: int, installed: bool) -> int:
    body = [part for part in source.module.body if source.last_line(part) < before]
    first = next((number for number, part in enumerate(body) if _imports_torch(part)), None)
    if first is None:
        imports = [part for part in body if _is_import(part)]
        if imports:
            return source.last_line(imports[-1]) + 1
        docstring = bool(body) and _is_docstring(body[0])
        return source.last_line(body[0]) + 1 if docstring else 1 + len(source.module.header)
    last = first
    while last + 1 < len(body) and _is_import(body[last + 1]):
        last += 1
    below = body[first + 1 : last + 1]
    place = None if installed else _sorted_place(source, [part for part in below if _is_of_project(source, part)])
    return source.last_line(body[last]) + 1 if place is None else place


def _sorted_place(source: SourceFile, own: Sequence[cst.CSTNode]) -> int | None:
    """The line among the project's own imports, where these are sorted as isort does it: plain ones come first."""
    keys = [_key(part) for part in own]
    if not own or keys != sorted(keys):
        return None
    after = next((part for part, key in zip(own, keys, strict=True) if key > (False, MODULE)), None)
    if after is None:
        return source.last_line(own[-1]) + 1
    commented = any(line.comment for line in getattr(after, "leading_lines", ()))
    return None if commented else source.line(after)


def _key(statement: cst.CSTNode) -> tuple[bool, str]:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    modules = [name for name, _ in modules_of(statement)]
    return isinstance(small, cst.ImportFrom), modules[0].lower() if modules else ""


def _is_of_project(source: SourceFile, statement: cst.CSTNode) -> bool:
    project = source.project
    return any(project.module(name, dots, source.path) is not None for name, dots in modules_of(statement))


def _imports_torch(statement: cst.CSTNode) -> bool:
    parts = (statement, *own_nodes(statement))
    lines = (part for part in parts if isinstance(part, cst.SimpleStatementLine))
    return any(not dots and name.partition(".")[0] == "torch" for line in lines for name, dots in modules_of(line))


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )


def _is_docstring(statement: cst.CSTNode) -> bool:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
