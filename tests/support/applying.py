"""A patch of a few small files, and processes that write it and stop in the middle."""

from __future__ import annotations

from pathlib import Path

from tracelens.model import FilePatch, Patch

BEFORE = b"print(1)\r\n# no newline at the end"
AFTER = b"print(2)\r\n# no newline at the end"


def project(folder: Path) -> tuple[Patch, Path, Path]:
    """A project with one file to change and one to create; returns the patch and both paths."""
    (folder / "src").mkdir()
    old, new = folder / "src" / "train.py", folder / "src" / "tracelens_runtime.py"
    old.write_bytes(BEFORE)
    old.chmod(0o750)
    files = (FilePatch(old, BEFORE, AFTER), FilePatch(new, None, b"# runtime\n"))
    return Patch(folder, files, (), (), ""), old, new
