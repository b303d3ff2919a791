"""Who owns the time of a step: what the GPU did, and what the host did while the GPU did nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tracelens.model.source import Location

OwnerKind = Literal[
    "wait",
    "host_line",
    "dataloader",
    "allocator",
    "optimizer",
    "backward",
    "launch",
    "copy",
    "communication",
    "gpu",
    "unknown",
]
OWNER_KINDS: tuple[str, ...] = get_args(OwnerKind)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a part of a step. `owned_ns` is per step, and no nanosecond has two owners.

    wait           the host waits for the GPU, and the launches that come late because it did
    host_line      code of the project that launches nothing meanwhile
    dataloader     the main thread in the DataLoader: its workers are too slow, or it has none
    allocator      memory is asked of the driver or given back to it
    optimizer, backward    the host in `Optimizer.step`, or in autograd
    launch         many short launches, none of which is long, and the way from the host to the GPU
    copy           copies that nothing hides, and the host that waits for an upload
    communication  collectives that nothing hides
    gpu            the GPU computes
    unknown        `reason` says why
    """

    kind: OwnerKind
    owned_ns: int
    locations: tuple[Location, ...] = ()
    """The innermost line first, then who called it, then other lines that share the owner. Of launches the lines with
    the most of them."""
    callee: str | None = None
    """What the line called, where that is known: `gc.collect`, `cudaMalloc`, `Adam.step`."""
    group: str | None = None
    """Id of the Stall that idle time of this owner follows: the two own the same idle time."""
    reason: str | None = None
    """Why it is unknown, or why a line is."""
    recoverable_ns: int | None = None
    """What a step is shorter by without it, replayed; None where that was not replayed."""
    low_ns: int | None = None
    high_ns: int | None = None
    evidence: Literal["measured", "replayed"] | None = None
    """What `recoverable_ns` comes from."""
    remedies: tuple[str, ...] = ()
    """Ids of levers."""


@dataclass(frozen=True, slots=True)
class Owners:
    """All owners of a step, the largest first. They add up to the wall time, checked here."""

    wall_ns: int
    owners: tuple[Owner, ...]

    def __post_init__(self) -> None:
        if any(owner.kind not in OWNER_KINDS or owner.owned_ns < 0 for owner in self.owners):
            raise ValueError(f"owners {self.owners} are not all of a known kind with a time")
        total = sum(owner.owned_ns for owner in self.owners)
        if abs(total - self.wall_ns) > len(self.owners):  # each is rounded to 1 ns
            raise ValueError(f"owners add up to {total} ns, the wall time is {self.wall_ns} ns")

    def share(self, owner: Owner) -> float:
        """Of the step, 0 to 1."""
        return owner.owned_ns / self.wall_ns if self.wall_ns > 0 else 0.0
