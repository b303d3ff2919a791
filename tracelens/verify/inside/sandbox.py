"""Keep a script's writes inside the working copy, and list those that were refused.

In: the folder that may be written, and the mirror in it. Out: an audit hook that sees each open for writing, rename and
removal by Python code before it happens. A write through a link of the working copy turns the link into
a copy first; any other write outside raises `PermissionError` and is appended to the list. Writes that Python does not
see (C++ code, child programs) are refused by the kernel where it has Landlock; torch's C++ writer is checked by name.
Standard library only: the hook is installed before the script's first line.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from typing import Any

from tracelens.verify import overlay

DEVICES = ("/dev", "/proc")
"""Not files of the user's: terminals, null, shared memory, the process's own settings."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Audit events that change the folder a path lies in: positions of the paths and of their dir_fd in the arguments.
_ENTRY_EVENTS: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
}
_MAKING = ("os.mkdir", "os.link", "os.symlink")
# Events that change the file itself.
_FILE_EVENTS: dict[str, tuple[int, int | None]] = {
    "os.truncate": (0, None),
    "os.chmod": (0, 2),
    "os.chown": (0, 3),
    "os.utime": (0, 3),
    "os.setxattr": (0, None),
    "sqlite3.connect": (0, None),
}


class WriteSandbox:
    """The audit hook of one process. `log` receives one line per refused path."""

    def __init__(self, scratch: str, tree: str, log: str) -> None:
        self.scratch = os.path.realpath(scratch)
        self.tree = tree
        self.log = log
        self._busy = threading.local()
        self._seen: set[str] = set()

    def install(self) -> None:
        """Check writes from here on, for the life of the process: audit hooks cannot be removed."""
        sys.addaudithook(self._audit)

    def check_file(self, path: str, *, keep: bool) -> None:
        """`path` is about to be written (`keep`: what it holds matters); raises `PermissionError` if it is outside."""
        absolute = os.path.abspath(path)
        if self._inside(os.path.realpath(absolute)):
            return
        if overlay.below(absolute, self.tree):
            overlay.own_file(absolute, self.tree, keep=keep)
            if self._inside(os.path.realpath(absolute)):
                return
        self._refuse(absolute)

    def check_entry(self, path: str) -> None:
        """The entry `path` is about to appear in or vanish from its folder."""
        absolute = os.path.abspath(path)
        folder = os.path.dirname(absolute)
        if self._inside(os.path.realpath(folder)):
            return
        if overlay.below(absolute, self.tree):
            overlay.own_parents(absolute, self.tree)
            if self._inside(os.path.realpath(folder)):
                return
        self._refuse(absolute)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" and event not in _ENTRY_EVENTS and event not in _FILE_EVENTS:
            return
        if getattr(self._busy, "on", False):
            return
        self._busy.on = True
        try:
            self._judge(event, arguments)
        finally:
            self._busy.on = False

    def _judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and (name := _name(path)) is not None:
                self.check_file(name, keep=not flags & os.O_TRUNC)
        elif event in _FILE_EVENTS:
            position, folder = _FILE_EVENTS[event]
            if (name := _name(arguments[position], _at(arguments, folder))) is not None and name != ":memory:":
                self.check_file(name, keep=True)
        else:
            for position, folder in _ENTRY_EVENTS[event]:
                name = _name(arguments[position], _at(arguments, folder))
                # Making what exists and removing what does not fail by themselves: makedirs(exist_ok=True) needs it
                if name is not None and (event == "os.rename" or os.path.lexists(name) == (event not in _MAKING)):
                    self.check_entry(name)

    def _inside(self, real: str) -> bool:
        return overlay.below(real, self.scratch) or any(overlay.below(real, folder) for folder in DEVICES)

    def _refuse(self, path: str) -> None:
        if path not in self._seen:
            self._seen.add(path)
            with open(self.log, "a", encoding="utf-8", errors="backslashreplace") as out:
                out.write(path.replace("\n", "\\n") + "\n")
        raise PermissionError(errno.EACCES, "tracelens verify: refused to write outside the working copy", path)


def check_torch_writer(guard: WriteSandbox, torch: Any) -> None:
    """torch.save opens its file in C++, where no audit event is raised: check the path when the writer is made."""
    plain: Any = torch._C.PyTorchFileWriter

    class PyTorchFileWriter(plain):  # type: ignore[misc, unused-ignore]
        def __init__(self, target: Any, *arguments: Any, **options: Any) -> None:
            if (name := _name(target)) is not None:
                guard.check_file(name, keep=False)
            super().__init__(target, *arguments, **options)

    torch._C.PyTorchFileWriter = PyTorchFileWriter


def ask_kernel(writable: tuple[str, ...]) -> bool:
    """Let the kernel (Landlock) refuse this process and its children writes outside `writable`; False: it cannot."""
    if not sys.platform.startswith("linux"):
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    version = syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 2:  # version 1 forbids renaming between folders altogether
        return False
    rights = sum(1 << bit for bit in (1, *range(4, 14))) | (1 << 14 if version >= 3 else 0)
    attribute = ctypes.c_uint64(rights)
    rules = syscall(444, ctypes.byref(attribute), ctypes.c_size_t(8), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        return all(_allow(syscall, rules, rights, folder) for folder in writable) and _restrict(syscall, rules)
    finally:
        os.close(rules)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _allow(syscall: Any, rules: int, rights: int, folder: str) -> bool:
    handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(rights, handle)
        return bool(syscall(445, rules, 1, ctypes.byref(rule), ctypes.c_uint32(0)) == 0)
    finally:
        os.close(handle)


def _restrict(syscall: Any, rules: int) -> bool:
    no_new_privileges = 38
    if ctypes.CDLL(None, use_errno=True).prctl(no_new_privileges, 1, 0, 0, 0):
        return False
    return bool(syscall(446, rules, ctypes.c_uint32(0)) == 0)


def _at(arguments: tuple[Any, ...], position: int | None) -> int:
    if position is None or position >= len(arguments) or not isinstance(arguments[position], int):
        return -1
    return int(arguments[position])


def _name(path: Any, folder: int = -1) -> str | None:
    """The path as text; None for file descriptors and what is no path."""
    if isinstance(path, int) or path is None:
        return None
    try:
        name = os.fsdecode(path)
    except TypeError:
        return None
    if folder >= 0 and not name.startswith("/"):
        return os.path.join(os.path.realpath(f"/proc/self/fd/{folder}"), name)
    return name
