"""Observes the steps of optimizers that were made before the hooks, through torch's own optimizer step hooks.

In: two functions. Out: they are called when outermost steps begin and end. Needed only where a script begins the
recording itself: torch has wrapped the `step` of such an optimizer's class already, and does not do so again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

is_compiling = torch.compiler.is_compiling


def any_below(base: type) -> bool:
    """Whether an optimizer of some subclass of `base` was made already."""
    subclasses: list[type] = base.__subclasses__()
    return any(getattr(kind.__dict__.get("step"), "hooked", False) or any_below(kind) for kind in subclasses)


def observe(begins: Callable[[], bool], ended: Callable[[Any], None]) -> None:
    """Call `ended(optimizer)` after each outermost step for which `begins()`, called at its start, returned True."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    entered: list[int] = []

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not is_compiling() and begins():
            if id(optimizer) in entered:  # its last step raised: torch calls no post hook then
                entered.clear()
            entered.append(id(optimizer))

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not is_compiling() and entered and entered[-1] == id(optimizer):
            entered.pop()
            if not entered:
                ended(optimizer)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
