"""A patch of a few small files, and processes that write it and stop in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from tracelens import run
from tracelens.model import FilePatch, Patch
from tracelens.run import writing

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


@contextmanager
def writing_with(function: Callable[..., object]) -> Iterator[None]:
    """Every file that is written atomically, JSON included, is written by `function`."""
    with mock.patch.object(run, "write_bytes", function), mock.patch.object(writing, "write_bytes", function):
        yield
