"""torch's own report of synchronizing calls, for those that no patch of ours sees: inside C++ operators.

In: a function that takes a place. Out: it is called with the user's line after each call that torch reports, while
`installed`. Apart from `attribution` because it borrows two global states, torch's debug mode and Python's warning
filters, and must give them back exactly as they were.

Python's filters are changed without telling the warnings module (`_filters_mutated`): told, it would forget which of
the script's own warnings were shown already, and they would appear a second time.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

_TEXT = re.compile(r"called a synchronizing CUDA operation|Synchronization debug mode is a prototype")
_OFF = 0
_WARN = 1


class SyncDebugMode:
    """`install` and `remove` at step boundaries; does nothing where the script uses the mode itself, or has no GPU."""

    def __init__(self, on_sync: Callable[[], None]) -> None:
        self._on_sync = on_sync
        self._filter: Any = None
        self._show: Any = None

    def install(self) -> None:
        """Switch the reports on; Python's warnings go their usual way but for these."""
        if not torch.cuda.is_initialized() or torch.cuda.get_sync_debug_mode() != _OFF:
            return
        self._filter = ("always", _TEXT, Warning, None, 0)
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        self._show, warnings.showwarning = warnings.showwarning, self._shown
        torch.cuda.set_sync_debug_mode(_WARN)

    def remove(self) -> None:
        """Everything as before, even if only half of it was installed."""
        if self._filter is None:
            return
        if torch.cuda.get_sync_debug_mode() == _WARN:
            torch.cuda.set_sync_debug_mode(_OFF)
        if warnings.showwarning == self._shown:
            warnings.showwarning = self._show
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        self._filter = None

    def _shown(self, message: Warning | str, *words: Any, **more: Any) -> None:
        text = str(message)
        if not _TEXT.match(text):
            self._show(message, *words, **more)
        elif text.startswith("called"):
            self._on_sync()
