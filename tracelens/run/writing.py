"""Writing files atomically: a reader sees the old content or the new one, and a write that fails changes nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelens.errors import UsageError
from tracelens.messages import say


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON atomically: a reader sees the old file or the new one, never half of it."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    # A path or argument that is no UTF-8 holds lone surrogates; backslashed, they are JSON's own notation for them.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, data: bytes, mode: int | None = None, mark: str | None = None) -> None:
    """Write a file atomically in its own folder (the only place a rename is sure to work), permissions kept.

    With a `mark` the temporary file is called `temporary(path, mark)`, so that a later run can recognize a leftover.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode is None:
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    if mark is None:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    else:
        name = str(temporary(path, mark))
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def temporary(path: Path, mark: str) -> Path:
    """What a file is made from that `write_bytes` writes with this mark; short enough for every file system."""
    return path.parent / f".{path.name[:50]}.tracelens-{mark}"


def write_output(path: Path, data: bytes) -> None:
    """Write a file that the user asked for; raises `UsageError` with what is in the way."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, say("it is a folder"))
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a device or pipe, such as /dev/stdout, must not be replaced by a file
        else:
            write_bytes(path, data)
    except OSError as error:
        blocked = isinstance(error, FileExistsError | NotADirectoryError)
        reason = say("a file is where a folder should be") if blocked else error.strerror or str(error)
        raise UsageError(
            say("{path} cannot be written: {reason}", path=path, reason=reason),
            hint=say("give a place that can be written"),
        ) from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
