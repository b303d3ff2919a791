"""What an arm tells people beside its standard output: log lines on standard error, and the text files it writes.

In: an arm's working copy when it has ended. Out: texts by name; of a checkpoint its digest. Many scripts log to
standard error or into a file; a line that a patch loses is lost there and nowhere else. Left out is what two correct
versions may tell differently: progress bars, which redraw by the clock, Python's warnings, which quote line numbers of
the source, and copies of the source itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from tracelens.verify.copy import Place

ERRORS = "standard error"
MOST_BYTES = 1 << 20
"""Of one text. A training's log of some hundred steps has less; what is larger is data."""
MOST_FILES = 20
MOST_SAVED_BYTES = 1 << 28
"""Of a file whose digest is taken."""
_SAVED = frozenset({".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npy", ".npz", ".pkl"})
"""Two runs of the same code write these to the byte, or else their digests differ already between the originals."""
_SOURCES = frozenset({".py", ".pyi", ".ipynb", ".patch", ".diff"})
"""A script that keeps a copy of itself beside its results keeps the patched one, rightly."""
_WARNING = re.compile(r"^\S.*:\d+: \w*Warning\b")


def read(place: Place, errors: bytes, written: tuple[str, ...]) -> dict[str, str]:
    """Texts by name: standard error, and each text file of the project among those that the arm wrote."""
    found = {ERRORS: _told(errors, place)}
    for name in written:
        path = Path(name)
        if path.is_relative_to(place.root) or path.is_relative_to(place.cwd):
            text = _text(place.copy_of(path))
            if text is not None and len(found) <= MOST_FILES:
                found[str(path.relative_to(place.root)) if path.is_relative_to(place.root) else name] = text
    return found


def shared(originals: list[Mapping[str, str]]) -> list[str]:
    """What every original left: names with a time or a process number in them belong to one run only."""
    return [name for name in originals[0] if all(name in other for other in originals[1:])]


def _told(errors: bytes, place: Place) -> str:
    """Standard error without what redraws itself, and without warnings and the source lines that they quote."""
    if len(errors) > MOST_BYTES:
        return ""
    out: list[str] = []
    quoted = False
    for line in errors.decode(errors="replace").replace(str(place.tree), "").split("\n"):
        warns = _WARNING.match(line) is not None
        if not (warns or (quoted and line.startswith("  ")) or "\r" in line):
            out.append(line)
        quoted = warns
    return "\n".join(out)


def _text(path: Path) -> str | None:
    """A file's text, or a checkpoint's digest; None for anything but a plain file of moderate size."""
    most = MOST_SAVED_BYTES if path.suffix in _SAVED else MOST_BYTES
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= most else b"\0"
        if path.suffix in _SAVED and path.is_file() and data != b"\0":
            return f"sha256 {hashlib.sha256(data).hexdigest()}"
        if path.suffix in _SOURCES:
            return None
        return None if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return None
