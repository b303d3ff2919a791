"""Uses `torch.cuda.set_sync_debug_mode` to learn of synchronizations inside C++ operators, which no patch of ours sees.

In: a function. Out: between `install` and `remove` it is called after each synchronizing call that torch reports. Two
global states are changed, torch's debug mode and Python's warning filters; `remove` restores both exactly.

The filters are changed without telling the warnings module (`_filters_mutated`): it would forget which of the script's
own warnings were shown already, and show them a second time.
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
    """`install` and `remove` at step boundaries. Inactive without a GPU, and where the script uses the mode itself."""

    def __init__(self, on_sync: Callable[[], None]) -> None:
        self._on_sync = on_sync
        self._filter: Any = None
        self._show: Any = None

    def install(self) -> None:
        """Switch the reports on; all other warnings are shown as usual."""
        if not torch.cuda.is_initialized() or torch.cuda.get_sync_debug_mode() != _OFF:
            return
        self._filter = ("always", _TEXT, Warning, None, 0)
        warnings.filters.insert(0, self._filter)  # type: ignore[attr-defined]
        self._show, warnings.showwarning = warnings.showwarning, self._shown
        torch.cuda.set_sync_debug_mode(_WARN)

    def remove(self) -> None:
        """Restore everything, also after an `install` that failed half-way."""
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
