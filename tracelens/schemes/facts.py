"""What is known of one run when its remedies are judged.

In: nothing. Out: `Facts` and `AdoptionLimits`, the arguments of `score.judge` and `advise.recommend`. Apart because the
stages that make estimates, patches and measurements are not ours to import: their results arrive here as values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracelens.model import (
    Abstention,
    Binding,
    Breakdown,
    Edit,
    Estimate,
    InventoryItem,
    Owners,
    Patch,
    Stall,
    Verification,
)
from tracelens.schemes.catalog import Change


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that scores and verdict may rest on; what was not measured is None or absent."""

    step_ns: int
    """The step as it is: unprofiled where that was recorded."""
    plans: Mapping[str, tuple[Edit, ...] | str]
    """Per scheme its Edits on this loop, or why it does not apply (from `plan.edits`, pruned or not)."""
    estimates: Mapping[str, Estimate | Abstention] = field(default_factory=dict)
    told_apart: Mapping[frozenset[str], bool] = field(default_factory=dict)
    """Per pair of schemes, whether replaying both with the same samples tells their step times apart."""
    patches: Mapping[str, Patch] = field(default_factory=dict)
    verifications: tuple[Verification, ...] = ()
    stalls: tuple[Stall, ...] = ()
    breakdown: Breakdown | None = None
    gpu_busy_share: float | None = None
    binding: Binding | None = None
    """What limits the loop once nothing waits (the largest of replay's bounds)."""
    has_gpu: bool = True
    waits_recorded: bool = True
    """False where the trace has no runtime calls: no stall in it is then no sign of health."""
    calls_recorded: bool = False
    """Whether there are runtime calls at all, where `waits_recorded` is False."""
    unknown_waits: tuple[str, ...] = ()
    """Calls that wait by their name, of a runtime that is not known."""
    steps_found: bool = True
    """False where the whole recording had to stand for one step."""
    unjudged: Abstention | None = None
    """Why nothing of the loop can be judged: too much of the recording is missing."""
    has_run: bool = True
    """False for a bare trace, which nothing can be tried on."""
    batch_bytes: int | None = None
    """Bytes of one batch on the GPU, as measured."""
    free_bytes: int | None = None
    """Free memory of the GPU while the loop ran."""
    inventory: tuple[InventoryItem, ...] = ()
    python: bool = True
    """False for a C++ program: no remedy of Python's helps it."""
    owners: Owners | None = None
    exposed_together_ns: int | None = None
    """What removing all waits gives back per step."""


@dataclass(frozen=True, slots=True)
class AdoptionLimits:
    """What the user can afford and wants: the seeds' decision tree. None is no limit."""

    days: float | None = None
    gain_percent: float | None = None
    change: Change | None = None
