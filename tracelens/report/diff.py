"""A unified diff as rows for a table: what the page draws beside the raw text.

In: the text of a diff. Out: files with rows, each with its line numbers before and after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["hunk", "same", "add", "del"]
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class Row:
    """One line; `old` and `new` are None where the line does not exist on that side."""

    kind: Kind
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """`path` as the diff names it, without the `a/` and `b/`."""

    path: str
    rows: tuple[Row, ...]


def parse(text: str) -> tuple[ChangedFile, ...]:
    """The files of a diff in order; an empty diff has none."""
    files: list[ChangedFile] = []
    rows: list[Row] = []
    path, before = "", ""
    old = new = 0
    for line in text.splitlines():
        if line.startswith("--- ") and not (rows and _inside(rows)):
            before = _name(line[4:])
        elif line.startswith("+++ ") and before:
            if path:
                files.append(ChangedFile(path, tuple(rows)))
            after = _name(line[4:])
            path, rows, before = (before if after == "/dev/null" else after), [], ""
        elif found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            rows.append(Row("hunk", None, None, line))
            before = ""
        elif path and line[:1] in ("+", "-", " "):
            row = _row(line, old, new)
            old += row.kind != "add"
            new += row.kind != "del"
            rows.append(row)
    if path:
        files.append(ChangedFile(path, tuple(rows)))
    return tuple(files)


def _row(line: str, old: int, new: int) -> Row:
    if line[0] == "+":
        return Row("add", None, new, line[1:])
    if line[0] == "-":
        return Row("del", old, None, line[1:])
    return Row("same", old, new, line[1:])


def _inside(rows: list[Row]) -> bool:
    """A removed line `-- x` looks like a file header; inside a hunk that still expects lines it is not one."""
    header = next(row for row in reversed(rows) if row.kind == "hunk")
    found = re.match(r"@@ -\d+(?:,(\d+))? ", header.text)
    expected = int(found[1] or 1) if found else 0
    seen = 0
    for row in reversed(rows):
        if row.kind == "hunk":
            break
        seen += row.kind != "add"
    return seen < expected


def _name(text: str) -> str:
    name = text.split("\t", 1)[0].strip()
    return name[2:] if name.startswith(("a/", "b/")) else name
