"""The diff that people read and `git apply` accepts.

In: files before and after, as bytes. Out: one text in git's unified format, paths relative to the project's root.
Lines end at "\\n" only, as git sees them, so carriage returns and form feeds stay inside their line.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracelens.model import FilePatch

CONTEXT_LINES = 3
_NO_NEWLINE = "\\ No newline at end of file\n"


def unified(files: Iterable[FilePatch], root: Path) -> str:
    """All files in one diff, by path."""
    return "".join(_file(one, root) for one in sorted(files, key=lambda one: one.path))


def _file(one: FilePatch, root: Path) -> str:
    name = Path(os.path.relpath(one.path, root)).as_posix()
    old, new = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    head = [f"diff --git {old} {new}\n"]
    if one.before is None:
        head.append("new file mode 100644\n")
    before, after = _lines(one.before or b""), _lines(one.after)
    from_name = "/dev/null" if one.before is None else _ended(old)
    body = difflib.unified_diff(before, after, from_name, _ended(new), n=CONTEXT_LINES)
    return "".join([*head, *_marked(body)])


def _ended(name: str) -> str:
    """With the tab by which git ends a name that has spaces: `patch` would take the first word alone."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _marked(lines: Iterable[str]) -> Iterator[str]:
    """git marks a last line without a newline; difflib leaves the mark to its caller."""
    for line in lines:
        if line.endswith("\n"):
            yield line
        else:
            yield f"{line}\n{_NO_NEWLINE}"


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", errors="surrogateescape")
    pieces = text.split("\n")
    return [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _quoted(name: str) -> str:
    """A path as git writes it: in quotes with octal escapes where it holds anything unusual."""
    raw = os.fsencode(name)
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return name
    escapes = {0x22: '\\"', 0x5C: "\\\\", 0x09: "\\t", 0x0A: "\\n"}
    return '"' + "".join(escapes.get(b) or (chr(b) if 0x20 <= b < 0x7F else f"\\{b:03o}") for b in raw) + '"'
