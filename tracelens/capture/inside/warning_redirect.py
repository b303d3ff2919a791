"""Warnings about a call that a wrapper of ours passes on appear where they would have appeared without it.

In: the file of the wrappers. Out: while `installed`, a warning about that file is given again for the line that called
the wrapper, so that the script's own filters judge it, and one that was shown for that line is not shown twice. Apart
from `attribution` because it borrows a global state, Python's filters, and must give it back as it was.

Python's filters are changed without telling the warnings module: see `sync_debug`.
"""

from __future__ import annotations

import re
import sys
import warnings
from types import FrameType
from typing import Any


class WarningRedirect:
    """`install` and `remove` at step boundaries."""

    def __init__(self, module: str, path: str) -> None:
        """`module` and `path` of the wrappers."""
        self._path = path
        self._filter = ("always", None, Warning, re.compile(re.escape(module) + r"\Z"), 0)
        self._show: Any = None

    def install(self) -> None:
        """Every warning about the wrappers comes to us, whatever the script's filters say of it."""
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        self._show, warnings.showwarning = warnings.showwarning, self._shown

    def remove(self) -> None:
        """Everything as before, even if only half of it was installed."""
        if warnings.showwarning == self._shown:
            warnings.showwarning = self._show
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def _shown(self, message: Any, category: Any, filename: str, *words: Any, **more: Any) -> None:
        caller = self._caller(sys._getframe(1)) if filename == self._path else None
        if caller is None:
            self._show(message, category, filename, *words, **more)
            return
        names = caller.f_globals
        registry = names.setdefault("__warningregistry__", {})
        module = names.get("__name__") or "<unknown>"
        warnings.warn_explicit(message, category, caller.f_code.co_filename, caller.f_lineno, module, registry)

    def _caller(self, frame: FrameType | None) -> FrameType | None:
        """Whoever called the wrapper; torch.compile's own wrapper around ours is as little the caller as ours is."""
        while frame is not None and frame.f_code.co_filename != self._path:
            frame = frame.f_back
        while frame is not None and (frame.f_code.co_filename == self._path or _is_disabling(frame)):
            frame = frame.f_back
        return frame


def _is_disabling(frame: FrameType) -> bool:
    return bool(frame.f_globals.get("__name__") == "torch._dynamo.eval_frame")
