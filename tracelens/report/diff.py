"""A unified diff as rows for a table: what the page draws beside the raw text.

In: the text of a diff. Out: files with rows, each with its line numbers before and after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

DiffRowKind = Literal["hunk", "same", "add", "del"]
NOWHERE = "/dev/null"
_HUNK = re.compile(r"@@ -(?P<old>\d+)(?:,(?P<old_lines>\d+))? \+(?P<new>\d+)(?:,(?P<new_lines>\d+))? @@")


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line; `old` and `new` are None where the line does not exist on that side."""

    kind: DiffRowKind
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """`path` as the diff names it, without the `a/` and `b/`."""

    path: str
    rows: tuple[DiffRow, ...]
    created: bool = False


def parse(text: str) -> tuple[ChangedFile, ...]:
    """The files of a diff in order; an empty diff has none."""
    files: list[ChangedFile] = []
    old = new = left = 0
    before = ""
    for line in text.splitlines():
        if left <= 0 and line.startswith("--- "):
            before = _name(line[4:])
        elif left <= 0 and line.startswith("+++ "):
            after = _name(line[4:])
            files.append(ChangedFile(before if after == NOWHERE else after, (), created=before == NOWHERE))
        elif files and (header := _HUNK.match(line)):
            old, new = int(header["old"]), int(header["new"])
            left = int(header["old_lines"] or 1) + int(header["new_lines"] or 1)
            files[-1] = _with(files[-1], DiffRow("hunk", None, None, line))
        elif left > 0 and line[:1] in ("+", "-", " "):
            row = _row(line, old, new)
            old += row.kind != "add"
            new += row.kind != "del"
            left -= 2 if row.kind == "same" else 1
            files[-1] = _with(files[-1], row)
    return tuple(files)


def _with(file: ChangedFile, row: DiffRow) -> ChangedFile:
    return replace(file, rows=(*file.rows, row))


def _row(line: str, old: int, new: int) -> DiffRow:
    if line[0] == "+":
        return DiffRow("add", None, new, line[1:])
    if line[0] == "-":
        return DiffRow("del", old, None, line[1:])
    return DiffRow("same", old, new, line[1:])


def _name(text: str) -> str:
    name = text.split("\t", 1)[0].strip().strip('"')
    return name[2:] if name.startswith(("a/", "b/")) else name
