"""Who owns the time of a step: what the GPU did, and what the host did while the GPU did nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from tracelens.messages import Message, joined, say
from tracelens.model.slow_steps import SlowSteps
from tracelens.model.source import Location
from tracelens.units import ms

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
NEW_ITERATOR = "DataLoader.__iter__"
"""`callee` of the DataLoader's time where the loop makes an iterator in each step, until a sample of its first batch is
read: the seeds, the order of the samples, the end of the iterator before."""
OWNER_KINDS: tuple[str, ...] = get_args(OwnerKind)
HOST_KINDS: tuple[OwnerKind, ...] = ("host_line", "dataloader", "allocator", "optimizer", "backward", "launch")
ISSUING_KINDS: tuple[OwnerKind, ...] = ("launch", "backward", "optimizer")
"""Beside a GPU: the host issues its work, in the forward pass and between, in backward, and in the optimizer."""
GAP_FILLERS: tuple[OwnerKind, ...] = ("host_line", "dataloader", "allocator")
FILLS_SHARE = 0.2
"""Of the idle time that the host makes: with less, issuing work is what the GPU waits for."""
FILLS_SHARE_UNNAMED = 0.5
"""The same where neither the line nor a call is known: what lies between launches may be launching too."""
LEAST_STEP_SHARE = 0.05
LEAST_PART_SHARE = 0.02
"""Of a batch: parts below it are not named in a sentence, and no more than this many are."""
MOST_PARTS = 5


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What a part of the time for one batch is spent on: a class of transforms, the samples beside them, collating."""

    name: str
    ns: int
    location: Location | None = None
    """Where the project's function begins."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """What one process of a DataLoader spends a batch on, the longest part first."""

    workers: int
    """That were measured; 0: the training process makes its batches itself."""
    parts: tuple[BatchPart, ...]

    @property
    def batch_ns(self) -> int:
        return sum(part.ns for part in self.parts)

    @property
    def said(self) -> Message:
        """'each worker needs 28.91 ms for a batch: Hash 20.73 ms, collate_fn 3.31 ms, __getitem__ (data.py:38) …'.

        Of the training process, whose batches are measured while its lines are clocked, only the shares.
        """
        shown = [part for part in self.parts if part.ns >= LEAST_PART_SHARE * self.batch_ns][:MOST_PARTS]
        named = (f"{part.name} ({part.location})" if part.location else part.name for part in shown)
        if not self.workers:
            shares = (f"{100 * part.ns / self.batch_ns:.0f} %" for part in shown)
            return say(
                "of the time for a batch: {parts}", parts=joined(", ", map(" ".join, zip(named, shares, strict=True)))
            )
        parts = joined(", ", [f"{name} {ms(part.ns)}" for name, part in zip(named, shown, strict=True)])
        return say("each worker needs {time} for a batch: {parts}", time=ms(self.batch_ns), parts=parts)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a part of a step. `owned_ns` is per step, and no nanosecond has two owners.

    wait           the host waits for the GPU, and the launches that come late because it did
    host_line      code of the project that launches nothing meanwhile
    dataloader     the main thread in the DataLoader: its workers are too slow, or it has none
    allocator      memory is asked of the driver or given back to it
    optimizer      the host in `Optimizer.step`
    backward       the host in autograd; a node that computes on the host has the line of its forward operation
    launch         many short launches, none of which is long, and the way from the host to the GPU; launches for one
                   tensor after the other have their line
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
    """Id of the Stall that idle time of this owner follows: the two own the same idle time. Of waits that pay only
    together their ids, `s1+s2`: they are one owner."""
    reason: str | None = None
    """Why it is unknown, or why a line is."""
    recoverable_ns: int | None = None
    """What a step of `Owners.step_ns` is shorter by without it, replayed; None where that was not replayed."""
    low_ns: int | None = None
    high_ns: int | None = None
    evidence: Literal["measured", "replayed"] | None = None
    """What `recoverable_ns` comes from."""
    instead: str | None = None
    """What takes its place where it does not just go: `8 workers`."""
    batch: BatchTimes | None = None
    """Of a DataLoader; None where that was not recorded."""
    remedies: tuple[str, ...] = ()
    """Ids of levers."""
    profiler_ns: int = 0
    """How much of `owned_ns` went to rows that the profiler recorded, and is not there without it."""
    of_one_line: bool = False
    """Of launches: whether all of them are made at the first of its lines."""
    line_shares: tuple[tuple[Location, float], ...] = ()
    """Of launches that several lines make: which part of its time each of the heaviest has, 0 to 1."""
    loop: tuple[int, int] | None = None
    """First and last line of the loop that it is as a whole; see `Owners.loops`."""
    occurrences: int = 0
    """Of what comes in slow steps alone: in how many of the timed steps it did; 0 for what each step holds. It owns
    nothing of an ordinary step, and `recoverable_ns` is what it adds to the mean one (`Owners.slow`)."""

    @property
    def is_gpu_work(self) -> bool:
        """Whether the GPU works while it holds the step; of copies those that nothing hides, not who waits for one."""
        exposed_copies = self.kind == "copy" and self.callee is None and not self.locations
        return self.kind in ("gpu", "communication") or exposed_copies

    @property
    def makes_iterators(self) -> bool:
        """Whether it is the DataLoader's iterator that the loop makes anew in each step."""
        return self.kind == "dataloader" and self.callee == NEW_ITERATOR


@dataclass(frozen=True, slots=True)
class Owners:
    """All owners of a step, the largest first. They add up to the wall time, checked here."""

    wall_ns: int
    owners: tuple[Owner, ...]
    base_ns: int | None = None
    """What `recoverable_ns` of each is taken out of, where that is another step time than the recorded one."""
    launches_per_step: float | None = None
    """Calls that launch GPU work; None where the recording has no calls."""
    loops: tuple[Owner, ...] = ()
    """Loops within a step, over samples, boxes or parameters, of which several lines take part: each as one owner of
    kind `host_line`. Their time is that of the lines' own owners, and is not added to it."""
    slow: SlowSteps | None = None
    """Steps that take much longer than the one that the owners add up to; None where none do."""

    @property
    def ordinary(self) -> Owners:
        """Without what comes in slow steps alone: its numbers are of another step time."""
        return replace(self, owners=tuple(owner for owner in self.owners if not owner.occurrences))

    @property
    def of_slow_steps(self) -> tuple[Owner, ...]:
        """What comes in slow steps alone, the largest first."""
        return tuple(owner for owner in self.owners if owner.occurrences)

    @property
    def batch(self) -> BatchTimes | None:
        """What the DataLoader's batches are spent on, where that was recorded."""
        return next((owner.batch for owner in self.owners if owner.batch is not None), None)

    @property
    def makes_iterators(self) -> bool:
        """Whether the loop makes an iterator of its DataLoader in each step, and would make its workers with it."""
        return any(owner.makes_iterators for owner in self.owners)

    @property
    def remedies_of_largest(self) -> tuple[str, ...]:
        """Ids of the levers that act on the largest owner."""
        return self.owners[0].remedies if self.owners else ()

    @property
    def step_ns(self) -> int:
        """The step that `recoverable_ns` of each is taken out of."""
        return self.base_ns or self.wall_ns

    def __post_init__(self) -> None:
        if any(owner.kind not in OWNER_KINDS or owner.owned_ns < 0 for owner in self.owners):
            raise ValueError(f"owners {self.owners} are not all of a known kind with a time")
        total = sum(owner.owned_ns for owner in self.owners)
        if abs(total - self.wall_ns) > len(self.owners):  # each is rounded to 1 ns
            raise ValueError(f"owners add up to {total} ns, the wall time is {self.wall_ns} ns")

    def gap_filler(self) -> Owner | None:
        """The largest single line, DataLoader or allocator call, if it owns enough of the idle time that the host makes
        to be what the GPU waits for. Then the loop is not launch-bound."""
        host_ns = sum(owner.owned_ns for owner in self.owners if owner.kind in HOST_KINDS)
        candidates = [owner for owner in self.owners if owner.kind in GAP_FILLERS and _fills(owner, host_ns)]
        largest = max(candidates, key=lambda owner: owner.owned_ns, default=None)
        return largest if largest is not None and largest.owned_ns >= LEAST_STEP_SHARE * self.wall_ns else None

    def share(self, owner: Owner) -> float:
        """Of the step, 0 to 1."""
        return owner.owned_ns / self.wall_ns if self.wall_ns > 0 else 0.0


def _fills(owner: Owner, host_ns: int) -> bool:
    named = owner.kind != "host_line" or owner.callee is not None or (bool(owner.locations) and owner.reason is None)
    return owner.owned_ns >= (FILLS_SHARE if named else FILLS_SHARE_UNNAMED) * host_ns
