"""One `apply` or `revert` at a time: of a Run, and of the folders whose files it writes.

In: folders. Out: a block in which no other TraceLens works in them. The lock is on the folder itself (`flock`), not on
a file in it: nothing is left behind in the project, a read-only folder can be locked too, and the lock ends with the
process, so it is never stale. Some network file systems do not lock folders; there two runs at the same time can both
write, and both can be reverted, because each Run keeps the files as it found them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracelens.errors import Refused
from tracelens.messages import say

WAIT_SECONDS = 30.0
"""Writing a patch takes milliseconds: a longer lock means a stopped process (Ctrl-Z) or a slow disk."""
_PAUSE_SECONDS = 0.02


@contextlib.contextmanager
def exclusive(run: Path, targets: Iterable[Path] = ()) -> Iterator[None]:
    """Hold the folder of a Run, then those of the files; a second one waits, and is refused after `WAIT_SECONDS`.

    Always in this order, and the folders of files in the order of their numbers: two never wait for one another.
    """
    with contextlib.ExitStack() as stack:
        ends = time.monotonic() + WAIT_SECONDS
        first = _opened([run], stack)
        later = _opened(targets, stack)
        numbers = sorted(later.keys() - first.keys())
        for folder, handle in [*first.values(), *(later[number] for number in numbers)]:
            _lock(folder, handle, ends)
        yield


def _opened(folders: Iterable[Path], stack: contextlib.ExitStack) -> dict[tuple[int, int], tuple[Path, int]]:
    """By device and number: a folder that is reached in two ways is one."""
    found: dict[tuple[int, int], tuple[Path, int]] = {}
    for folder in folders:
        with contextlib.suppress(OSError):  # no such folder, or one that may not be read: nothing to lock
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, handle)
            status = os.fstat(handle)
            found.setdefault((status.st_dev, status.st_ino), (folder, handle))
    return found


def _lock(folder: Path, handle: int, ends: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                hint = say(
                    "wait for it, or end it (a stopped job still holds its folder: `jobs`, `fg`), then try again"
                )
                raise Refused(
                    say("another tracelens is writing in {folder}; nothing was changed", folder=folder), hint=hint
                ) from None
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            return None  # this disk locks no folders
