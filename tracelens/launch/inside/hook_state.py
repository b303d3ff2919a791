"""What the hooks know while a script runs: the step that ended, the open calls, who wants to know.

In: the hooks fill it. Out: plain values. Apart so that what is kept can be read beside what is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from tracelens.launch.inside.steps import Source, StepRule

Observers = tuple[Callable[..., None], ...]


class Step(NamedTuple):
    """The training step that has just ended. A named tuple, because it is made in every step of the user's loop."""

    number: int
    source: Source
    optimizer: torch.optim.Optimizer | None
    restarted: bool


@dataclass
class State:
    """What changes while the script runs; starts afresh in a forked child."""

    rule: StepRule = field(default_factory=StepRule)
    thread: int | None = None
    """The thread that trains: the first one that stepped or called backward."""
    depth: int = 0
    """Optimizer calls that are open on the training thread (wrappers call the optimizer they wrap)."""
    stepped_inside: bool = False
    """An optimizer ran within the backward that is open."""


@dataclass
class Observed:
    """Who wants to know what. While nobody does, the hooks only call what they wrap."""

    step: Observers = ()
    backward: Observers = ()
    loader: Observers = ()
    failure: Observers = ()
    any: bool = False
