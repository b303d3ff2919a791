"""Mixed precision around forward and loss, without a line of the script changed.

In: a toggle of kind `autocast`. Out: autocast is on for the thread of the loop, except during backward, in optimizers
and while a DataLoader makes a batch. The cache of cast weights is emptied where a `with torch.autocast` block would
end, before backward, and after each optimizer step, which changes the weights.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from tracelens.launch.inside import dynamo_skip
from tracelens.verify.inside.toggles.toggle_record import ToggleRecord


class LoopAutocast:
    """The switch, for the thread that made it."""

    def __init__(self, record: ToggleRecord) -> None:
        self._record = record
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._dtype = getattr(torch, str(record.value))
        self._thread = threading.get_ident()
        self._paused = 0

    def switch_on(self) -> None:
        """From here on; the script's own blocks restore this state when they end."""
        torch.set_autocast_dtype(self._device, self._dtype)
        torch.set_autocast_enabled(self._device, True)

    def paused(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with autocast off while it runs on the thread of the loop, and an empty cache afterwards."""

        @functools.wraps(function)
        def without_autocast(*args: Any, **kwargs: Any) -> Any:
            if self._paused or threading.get_ident() != self._thread or torch.compiler.is_compiling():
                return function(*args, **kwargs)
            before = torch.is_autocast_enabled(self._device)
            self._paused += 1
            torch.clear_autocast_cache()
            torch.set_autocast_enabled(self._device, False)
            try:
                return function(*args, **kwargs)
            finally:
                self._paused -= 1
                torch.clear_autocast_cache()
                torch.set_autocast_enabled(self._device, before)

        dynamo_skip.skip_frames(without_autocast)
        return without_autocast

    def note_backward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, which is backward, with a look at whether autocast was on before it."""

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                self._record.refused("the loop runs in another thread than the one that imports torch")
            elif self._record.state == "unused":
                self._record.applied(f"{self._device}, {self._record.value}")
            return function(*args, **kwargs)

        dynamo_skip.skip_frames(noted)
        return noted


def install(record: ToggleRecord) -> None:
    """Switch autocast on and see to it that it is off where it does harm."""
    switch = LoopAutocast(record)
    _note_own_blocks(record)
    torch.autograd.backward = switch.note_backward(switch.paused(torch.autograd.backward))
    torch.autograd.grad = switch.paused(torch.autograd.grad)
    wrapped = torch.optim.Optimizer.profile_hook_step

    def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
        return switch.paused(wrapped(function))

    torch.optim.Optimizer.profile_hook_step = staticmethod(functools.wraps(wrapped)(profile_hook_step))
    from torch.utils.data import dataloader

    base = dataloader._BaseDataLoaderIter
    base.__next__ = switch.paused(base.__next__)
    switch.switch_on()


def _note_own_blocks(record: ToggleRecord) -> None:
    """A loop with an autocast of its own has the lever already."""
    enter = torch.amp.autocast_mode.autocast.__enter__

    @functools.wraps(enter)
    def noted(block: Any) -> Any:
        if block._enabled and not torch.compiler.is_compiling():
            record.state, record.detail = "already", f"the script has an autocast of its own ({block.fast_dtype})"
        return enter(block)

    torch.amp.autocast_mode.autocast.__enter__ = noted
