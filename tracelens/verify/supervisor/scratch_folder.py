"""The folder of one verification, and its removal however the verification ends.

In: the parent folder. Out: a context manager that gives a `ScratchFolder`. An exception, Ctrl-C and SIGTERM unwind
through the context manager. After a SIGKILL nothing unwinds: a small guardian process waits at a pipe for our end, then
ends the trial process and removes the folder. What a power failure leaves is removed by the next verification: a folder
whose lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

PREFIX = "tracelens-verify-"
LOCK = "lock"
LONGEST_PARENT = 40
"""Characters. A DataLoader's workers pass tensors through sockets in the process's TMPDIR, and the name of a socket has
107 at most: our own folders below the parent take 34 of them, multiprocessing's 32."""
GUARDIAN = """
import os, shutil, signal, sys
group = 0
for line in sys.stdin:
    group = int(line)
if group:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
for _ in range(5):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
"""
"""Reads process groups, one per line; when the pipe closes, ends the last one and removes the folder. The removal is
repeated, because a process that is being killed may still write into the folder."""


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A folder that is removed when this process ends."""

    folder: Path
    _pipe: IO[str]

    def watch_group(self, group: int) -> None:
        """Tell the guardian which process group runs now; 0: none."""
        with contextlib.suppress(OSError):  # the guardian was killed: we still unwind by ourselves
            self._pipe.write(f"{group}\n")
            self._pipe.flush()


@contextmanager
def opened(parent: Path | None) -> Iterator[ScratchFolder]:
    """A new scratch folder below `parent` (the system's place for such, by default); stale ones there are removed."""
    parent = parent or usual_parent()
    remove_stale(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent)).resolve()
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guardian = _guardian(folder)
        assert guardian.stdin is not None
        try:
            with _ended_by_signals():
                yield ScratchFolder(folder, guardian.stdin)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                guardian.stdin.write("0\n")
                guardian.stdin.close()
            guardian.wait()


def usual_parent() -> Path:
    """The system's place for temporary files, unless sockets below it would have names that the system cannot take."""
    usual, short = Path(tempfile.gettempdir()), Path("/tmp")
    return short if len(str(usual)) > LONGEST_PARENT and os.access(short, os.W_OK | os.X_OK) else usual


def remove_stale(parent: Path) -> tuple[Path, ...]:
    """Remove the scratch folders that no living verification holds; another user's are left alone."""
    removed = []
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (folder / LOCK).open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return tuple(removed)


def _guardian(folder: Path) -> subprocess.Popen[str]:
    """In a session of its own: a signal to our whole process group must not reach it."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", GUARDIAN, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        text=True,
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind as Ctrl-C does: a trial process has a session of its own and would train on."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # only the main thread can take signals
        yield
        return
    taken = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, end)
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
