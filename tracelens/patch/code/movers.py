"""Classes of the project that move themselves to a device: their `to` may not know the arguments that a tensor's does.

In: the project's root. Out: where such methods are. A batch can hold their objects, and then `non_blocking=True` would
end the training in its first step. Read as text, bounded, because a project's folder may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tracelens.model import Location
from tracelens.patch.effects.project import MAX_BYTES, python_files

REMEMBERED = 8
_MOVER = re.compile(rb"^[ \t]+def (?:to|cuda)\(\s*self\b[^)]*\)", re.MULTILINE)
_KNOWS = (b"non_blocking", b"**")


@lru_cache(maxsize=REMEMBERED)
def find(root: Path) -> tuple[Location, ...]:
    """Methods `to` and `cuda` that take no `non_blocking`, in files below `root`."""
    return tuple(place for path in python_files(root) for place in _in(path, root))


def _in(path: Path, root: Path) -> Iterator[Location]:
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_BYTES else b""
    except OSError:
        return
    for found in _MOVER.finditer(data):
        if not any(word in found[0] for word in _KNOWS):
            yield Location(path.relative_to(root).as_posix(), data.count(b"\n", 0, found.start()) + 1)
