"""Redirects warnings that name a wrapper of ours as their place to the line of the script that called the wrapper.

In: the file of the wrappers. Out: between `install` and `remove` such a warning is issued again for the calling line,
so that the script's own filters apply, and one that was shown for that line is not shown twice. Python's warning
filters are changed meanwhile, and restored exactly; for `_filters_mutated` see `sync_debug_mode`.
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
        """`module` and `path` of the wrappers' file."""
        self._path = path
        self._filter = ("always", None, Warning, re.compile(re.escape(module) + r"\Z"), 0)
        self._show: Any = None

    def install(self) -> None:
        """Receive every warning about the wrappers, whatever the script's filters do with it."""
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        self._show, warnings.showwarning = warnings.showwarning, self._shown

    def remove(self) -> None:
        """Restore everything, also after an `install` that failed half-way."""
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
        """The frame that called the wrapper, skipping Dynamo's wrapper around ours."""
        while frame is not None and frame.f_code.co_filename != self._path:
            frame = frame.f_back
        while frame is not None and (frame.f_code.co_filename == self._path or _is_dynamo_wrapper(frame)):
            frame = frame.f_back
        return frame


def _is_dynamo_wrapper(frame: FrameType) -> bool:
    return bool(frame.f_globals.get("__name__") == "torch._dynamo.eval_frame")
