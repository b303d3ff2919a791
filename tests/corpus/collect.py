"""Which files under a folder are training scripts.

In: a folder of other people's code. Out: paths.
"""

from __future__ import annotations

from pathlib import Path

from tracelens.patch.code.batches import batches
from tracelens.patch.effects.project import parsed

SKIPPED_FOLDERS = frozenset({"test", "tests", "testing", "site-packages", "build", ".git", "__pycache__"})
_MENTIONS = (b"torch", b"backward(")


def scripts(folder: Path) -> list[Path]:
    """Python files that mention torch and go backward in a loop, or in a function that makes one step."""
    return [path for path in sorted(folder.rglob("*.py")) if _is_script(path, folder)]


def _is_script(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    if SKIPPED_FOLDERS & {part.lower() for part in parts[:-1]} or path.name.startswith("test_") or not path.is_file():
        return False
    data = path.read_bytes()
    if not all(word in data for word in _MENTIONS):
        return False
    tree = parsed(data)
    if tree is None:
        return True  # perhaps Python 2: to be declined, not to be overlooked
    found = batches(tree)
    return bool(found.loops or found.functions)
