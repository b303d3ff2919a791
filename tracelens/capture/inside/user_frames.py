"""Which code is the user's: the innermost frame that belongs neither to torch, nor to a library, nor to us.

In: frames of the running script. Out: the place in the user's source. Apart because samples and marks must agree on
it, and because it must be cheap: one dictionary look-up per frame after the first time.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType

import tracelens

Place = tuple[str, int, str]
"""(path, line, function); the path as Python knows it."""

DEEPEST = 200
"""Frames looked at: deeper recursion than this is no training loop."""

_PACKAGE = os.path.join(os.path.dirname(os.path.abspath(tracelens.__file__)), "")
_LIBRARY_PARTS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_STANDARD = tuple(
    {path.rstrip(os.sep) + os.sep for key in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(key))}
)
_users: dict[str, bool] = {}  # by file name: hashing a code object costs more than judging it


def is_users(code: CodeType) -> bool:
    """True for code that the user can edit in this project: no library, no torch, nothing generated, not us."""
    known = _users.get(code.co_filename)
    if known is None:
        known = _users[code.co_filename] = _judge(code.co_filename)
    return known


def innermost(frame: FrameType | None) -> Place | None:
    """The innermost frame of the user's code at or above `frame`, with the line it is at now."""
    for _ in range(DEEPEST):
        if frame is None:
            return None
        code = frame.f_code
        if is_users(code):
            return code.co_filename, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


def shown(path: str, folder: str) -> str:
    """`path` as the recording stores it: relative to `folder` where it lies below it."""
    full = os.path.abspath(path)
    return os.path.relpath(full, folder) if full.startswith(folder.rstrip(os.sep) + os.sep) else full


def _judge(path: str) -> bool:
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
