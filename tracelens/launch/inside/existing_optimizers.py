"""Steps of optimizers that were made before us, by torch's own hooks around every `step`.

In: two functions. Out: they are called as outermost steps begin and end. Apart from the hooks because it is needed only
where a script begins the recording itself: torch has wrapped such a class's `step` already, and will not do so again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

is_compiling = torch.compiler.is_compiling


def exist(base: type) -> bool:
    """An optimizer of some class below `base` was made before us."""
    below: list[type] = base.__subclasses__()
    return any(getattr(one.__dict__.get("step"), "hooked", False) or exist(one) for one in below)


def follow(begins: Callable[[], bool], ended: Callable[[Any], None]) -> None:
    """Call `ended(optimizer)` after each outermost step of those that `begins` counts."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    entered: list[int] = []

    def before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not is_compiling() and begins():
            if id(optimizer) in entered:  # its last step raised: torch called no hook after it
                entered.clear()
            entered.append(id(optimizer))

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not is_compiling() and entered and entered[-1] == id(optimizer):
            entered.pop()
            if not entered:
                ended(optimizer)

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)
