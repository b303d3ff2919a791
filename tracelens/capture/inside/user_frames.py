"""Finds the innermost frame of the user's code: not torch's, not a library's, not ours.

In: frames of the running script. Out: a place in the user's source. Samples and marks share it, so that they agree; it
costs one dictionary look-up per frame after a file's first time.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType

import tracelens

Place = tuple[str, int, str]
"""(path, line, function); the path as in the code object."""

DEEPEST = 200
"""Frames that are searched; no training loop is called from a deeper stack."""

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(tracelens.__file__)), "")
_LIBRARY_PARTS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = tuple(
    {path.rstrip(os.sep) + os.sep for key in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(key))}
)
_users: dict[str, bool] = {}  # by file name: a code object takes longer to hash than a file name


def is_users(code: CodeType) -> bool:
    """Whether this is code of the user's project: no library, not torch, not generated, not ours."""
    return is_users_file(code.co_filename)


def is_users_file(path: str) -> bool:
    """Whether code with this file name is the user's project's."""
    known = _users.get(path)
    if known is None:
        known = _users[path] = _is_users_file(path)
    return known


def innermost(frame: FrameType | None) -> Place | None:
    """The place of the innermost frame of the user's code at or above `frame`; None where there is none."""
    for _ in range(DEEPEST):
        if frame is None:
            return None
        code = frame.f_code
        if is_users(code):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


def stored_path(path: str, folder: str) -> str:
    """`path` as the recording stores it: relative to `folder` where it lies below it."""
    full = os.path.abspath(path)
    return os.path.relpath(full, folder) if full.startswith(folder.rstrip(os.sep) + os.sep) else full


def stored_place(place: Place, folder: str) -> dict[str, str | int]:
    """`place` as the recording stores it."""
    path, line, function = place
    return {"path": stored_path(path, folder), "line": line, "function": function}


def _is_users_file(path: str) -> bool:
    if path.startswith("<"):
        return path.startswith("<ipython-input")  # a cell of an interactive session
    full = os.path.abspath(path)
    if full.startswith(_PACKAGE) or any(part in full for part in _LIBRARY_PARTS):
        return False
    if _is_torch(full):
        return False
    return not full.startswith(_STANDARD)


def _is_torch(full: str) -> bool:
    torch = sys.modules.get("torch")
    home = os.path.dirname(getattr(torch, "__file__", None) or "")
    return bool(home) and full.startswith(home + os.sep)
