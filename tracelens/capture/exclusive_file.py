"""A file that one monitor writes: ranks of one job, which all name the same, get files of their own.

In: the file that was asked for. Out: the one to write, held until `release`. Apart from the monitor because rows of two
writers in one file could not be told from each other, and each would write over the other's.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracelens.launch import ranks

_MOST_IN_ONE_PROCESS = 1000


class ExclusiveFile:
    """`claim` once, then `release`."""

    def __init__(self) -> None:
        self._file: IO[str] | None = None

    def claim(self, asked: Path) -> Path:
        """`asked` for rank 0, `<name>-rank3` for rank 3; `<name>-<process>` where somebody is writing. An older file is
        set aside. Raises `OSError` where nothing can be written."""
        rank = ranks.rank()
        own = asked.with_name(f"{asked.stem}-rank{rank}{asked.suffix}") if rank else asked
        own.parent.mkdir(parents=True, exist_ok=True)
        others = (own.with_name(f"{own.stem}-{os.getpid()}-{n}{own.suffix}") for n in range(1, _MOST_IN_ONE_PROCESS))
        for path in (own, own.with_name(f"{own.stem}-{os.getpid()}{own.suffix}"), *others):
            if not _is_written(path):
                _set_aside(path)
                self._file = _held(path)
                if self._file is not None:
                    return path
        raise FileExistsError(0, "others write there", str(own))

    def release(self) -> None:
        """Also for processes forked meanwhile, which have inherited the hold."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None


def _is_written(path: Path) -> bool:
    if not path.is_file():
        return False
    held = _held(path)
    if held is not None:
        held.close()
    return held is None


def _held(path: Path) -> IO[str] | None:
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # a file system without locks
        return file
    return file


def _set_aside(path: Path) -> None:
    """Rename an older file; what somebody measured is not overwritten."""
    with suppress(FileNotFoundError):
        if not path.is_file() or not path.stat().st_size:
            return
    number = next(n for n in range(1, 1_000_000) if not path.with_name(f"{path.name}.{n}").exists())
    with suppress(FileNotFoundError):  # another process has set it aside in the meantime
        path.rename(path.with_name(f"{path.name}.{number}"))
