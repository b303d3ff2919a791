"""Classes of the project that move themselves to a device: their `to` may not know the arguments that a tensor's does.

In: the project's root. Out: where such methods are. A batch can hold their objects, and then `non_blocking=True` would
end the training in its first step. Read as text, bounded, because a project's folder may hold anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tracelens.model import Location

MAX_FILES = 1000
MAX_FOLDERS = 500
"""What is searched of a project; a training project has fewer files, a folder of data is left after these."""
MAX_BYTES = 1 << 20
REMEMBERED = 8
_MOVER = re.compile(rb"^[ \t]+def (?:to|cuda)\(\s*self\b[^)]*\)", re.MULTILINE)
_KNOWS = (b"non_blocking", b"**")
_NOT_OURS = frozenset({"site-packages", "node_modules", "__pycache__", "tracelens-runs", "build", "dist"})


@lru_cache(maxsize=REMEMBERED)
def find(root: Path) -> tuple[Location, ...]:
    """Methods `to` and `cuda` that take no `non_blocking`, in files below `root`."""
    return tuple(place for path in python_files(root) for place in _in(path, root))


def python_files(root: Path) -> Iterator[Path]:
    seen = 0
    for number, (folder, folders, names) in enumerate(os.walk(root)):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and not name.startswith("."))
        for name in sorted(names):
            if name.endswith(".py"):
                seen += 1
                yield Path(folder, name)
        if seen >= MAX_FILES or number >= MAX_FOLDERS:
            return


def _in(path: Path, root: Path) -> Iterator[Location]:
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return
    for found in _MOVER.finditer(data):
        if not any(word in found[0] for word in _KNOWS):
            yield Location(path.relative_to(root).as_posix(), data.count(b"\n", 0, found.start()) + 1)
