"""The state of the hooks while a script runs: the step that ended, the calls that are open, the observers.

In: the hooks write it. Out: plain values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from tracelens.launch.inside.steps import Source, StepRule

Observers = tuple[Callable[..., None], ...]
made_optimizers: list[type] = []
"""Not empty once this process has made an optimizer (a class of them: torch tells once for each)."""


class Step(NamedTuple):
    """The training step that has just ended. A named tuple, because it is made in every step of the user's loop."""

    number: int
    source: Source
    optimizer: torch.optim.Optimizer | None
    restarted: bool


@dataclass
class HookState:
    """What changes while the script runs; reset in a forked child."""

    rule: StepRule = field(default_factory=lambda: StepRule(made_optimizers))
    thread: int | None = None
    """The thread that trains: the first one that stepped or called backward."""
    depth: int = 0
    """Optimizer calls that are open on the training thread (wrappers call the optimizer they wrap)."""
    stepped_inside: bool = False
    """An optimizer stepped within the backward that is open."""


@dataclass
class ObserverLists:
    """The observers by kind. While there are none, the hooks only call what they wrap."""

    step: Observers = ()
    backward: Observers = ()
    loader: Observers = ()
    failure: Observers = ()
    any: bool = False
