"""A file with a single writer: ranks of one job that all name the same file get one each.

In: the path that was asked for. Out: the path to write, locked until `release`. Two monitors that write one file would
overwrite each other's rows.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracelens.launch import ranks
from tracelens.messages import say

_MOST_IN_ONE_PROCESS = 1000


class ExclusiveFile:
    """Locks a path between `claim` and `release`; each is called once."""

    def __init__(self) -> None:
        self._file: IO[str] | None = None

    def claim(self, asked: Path) -> Path:
        """The path to write: `asked` for rank 0, `<name>-rank3` for rank 3, `<name>-<pid>` where that one is locked.

        An older file is renamed. Raises `OSError` where nothing can be written.
        """
        rank = ranks.rank()
        own = asked.with_name(f"{asked.stem}-rank{rank}{asked.suffix}") if rank else asked
        own.parent.mkdir(parents=True, exist_ok=True)
        others = (own.with_name(f"{own.stem}-{os.getpid()}-{n}{own.suffix}") for n in range(1, _MOST_IN_ONE_PROCESS))
        for path in (own, own.with_name(f"{own.stem}-{os.getpid()}{own.suffix}"), *others):
            if not _is_locked(path):
                _rename_older(path)
                self._file = _locked(path)
                if self._file is not None:
                    return path
        raise FileExistsError(0, say("others write there"), str(own))

    def release(self) -> None:
        """Unlock explicitly: processes forked meanwhile have inherited the lock, so that closing is not enough."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self._file.close()
            self._file = None


def _is_locked(path: Path) -> bool:
    if not path.is_file():
        return False
    file = _locked(path)
    if file is not None:
        file.close()
    return file is None


def _locked(path: Path) -> IO[str] | None:
    """The file, opened and locked; None where another writer holds the lock."""
    file = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # a file system without locks
        return file
    return file


def _rename_older(path: Path) -> None:
    """Rename an older file that is not empty to `<name>.1` and so on, so that no measurement is overwritten."""
    with suppress(FileNotFoundError):
        if not path.is_file() or not path.stat().st_size:
            return
    number = next(n for n in range(1, 1_000_000) if not path.with_name(f"{path.name}.{n}").exists())
    with suppress(FileNotFoundError):  # another process has renamed it in the meantime
        path.rename(path.with_name(f"{path.name}.{number}"))
