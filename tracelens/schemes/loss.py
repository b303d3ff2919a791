"""The largest loss of a step: what verdict and headline are about, whatever limits the loop.

In: the Owners of a step. Out: a `Loss`, or None where no owner is known. What gives back most when it is removed comes
first, by the middle of its range: where that begins at nothing it is the cause all the same, and nothing is promised.
Without a replay it is what owns most. Waits that pay only together are one loss, and so are the lines of a loop within
a step, and all that issues work.
"Launch-bound" is the answer only where no line, loader or allocator call fills the gaps or most likely gives time back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tracelens.model import ISSUING_KINDS, Location, Owner, OwnerKind, Owners

REMOVABLE: tuple[OwnerKind, ...] = ("wait", "copy", "host_line", "dataloader", "allocator")
BUSY: tuple[OwnerKind, ...] = ("gpu", "communication", "copy")
OF_A_LINE: tuple[OwnerKind, ...] = ("wait", "copy", "host_line", "allocator", "launch")
"""Without their line there is nothing to look at."""

MOST_BUSY = 0.9
"""A GPU that is busier than this limits the loop itself."""
MOST_BUSY_WHEN_LAUNCHING = 0.8
"""Above, launching cannot be what the GPU waits for, whatever else it waits for."""
LEAST_ISSUING_SHARE = 0.2
"""Of the step. Issuing less than this leaves the GPU no time to speak of."""
LEAST_OWNED_SHARE = 0.05
"""Of the step: what owns less, or gives back less without being sure, is no cause to speak of."""
LEAST_RECOVERABLE_SHARE = 0.02
"""Of the step: what is below drowns in the variation between two runs."""
LEAST_BESIDE_SHARE = 0.1
"""Of a step on the CPU: what holds less is no answer where forward, backward and optimizer hold the rest."""
LEAST_CERTAIN_SHARE = 0.01
"""Of the step, at the low end of the range."""
MOSTLY_SURE = 0.5
"""Of the middle: with a lower end below it the range is said, because the promise is that end."""
NARROW = 0.25
"""Half of a range, as a part of its middle: up to here the middle may stand alone."""
FEWEST_LAUNCHES = 50
"""Per step, as the detector of many short kernels has it: fewer are not what makes the host slow."""
MOSTLY = 0.6
"""Of the time that issuing work takes: then it is the backward pass or the optimizer, not launching as such."""
TOGETHER = 1.1
"""Waits, or the lines of a loop, are one loss where removing all gives back that many times what the best of them
gives."""


@dataclass(frozen=True, slots=True)
class Period:
    """What a loss is taken out of: a step as it is without the profiler, and as recorded, which owners add up to."""

    step_ns: int
    wall_ns: int
    name: str = "step"
    """"recording" where no steps were found in it."""
    has_gpu: bool = True


@dataclass(frozen=True, slots=True)
class Loss:
    """An owner, or several that are one loss."""

    owner: Owner
    count: int = 1
    """How many waits, or copies."""
    launches: float | None = None
    """Per step, where they are the loss and are many."""
    of_training: tuple[Owner, ...] = ()
    """On a CPU: the owners that are forward, backward and optimizer, where `owner` is all of them as one."""
    beside_training: bool = False
    """On a CPU: whether forward, backward or optimizer holds more."""
    blocked_ns: int | None = None
    """Per step, of waits and copies that Python waits for: how long it is blocked at their lines."""
    idle_ns: int | None = None
    """Per step, of a loss that may give nothing back: how long the GPU idles for all that its line does."""

    @property
    def sure(self) -> bool:
        """Whether a gain is promised: else the low end of its range is next to nothing, and only the cause is told."""
        return self.idle_ns is None

    @property
    def ns(self) -> int:
        """Per step: what removing it gives back, else what it owns."""
        return self.owner.owned_ns if self.owner.recoverable_ns is None else self.owner.recoverable_ns

    @property
    def returns(self) -> bool:
        """Whether `ns` was replayed or measured; else it is the time that was owned."""
        return self.owner.recoverable_ns is not None

    @property
    def narrow(self) -> bool:
        """Whether its gain is known well enough to be told without its range."""
        low, high = self.owner.low_ns, self.owner.high_ns
        if low is None or high is None:
            return True
        return low >= MOSTLY_SURE * self.ns and high - low <= 2 * NARROW * self.ns

    @property
    def observed_ns(self) -> int:
        """Per step, what was seen of it and not what its end gives back: blocked time, else the time that it owns."""
        return self.idle_ns or self.blocked_ns or self.owner.owned_ns


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What is known of a step beside its owners."""

    step_ns: int
    """Without the profiler, where that is known: what a loss that was replayed is taken out of."""
    gpu_busy_share: float = 0.0
    together_ns: int | None = None
    """What removing all waits gives back."""


def largest(owners: Owners | None, step: StepFacts) -> Loss | None:
    """The largest loss of an ordinary step; the GPU's own work where nothing else is one; None where no owner is
    known."""
    if owners is None:
        return None
    owners = owners.ordinary
    issuing = _issuing(owners) if step.gpu_busy_share <= MOST_BUSY_WHEN_LAUNCHING else None
    least_ns = (LEAST_OWNED_SHARE if issuing else LEAST_RECOVERABLE_SHARE) * step.step_ns
    candidates = (*owners.owners, *_loops(owners))
    removable = [Loss(owner, _count(owner)) for owner in candidates if _pays(owner, owners, step)]
    removable += _waits_together(owners, step)
    sure = [loss for loss in removable if loss.ns >= least_ns]
    best = max([*sure, *_unsure(owners, step)], key=lambda loss: loss.ns, default=None)  # of equal ones the sure one
    if best is not None:
        return best
    if step.gpu_busy_share >= MOST_BUSY:
        return _longest(Loss(owner) for owner in owners.owners if owner.kind in BUSY and not owner.locations)
    others = [
        Loss(replace(owner, recoverable_ns=None))  # what it gives back is not certain: only what it owns is said
        for owner in owners.owners
        if owner.kind in (*REMOVABLE, "communication") and _known(owner)
    ]
    longest = _longest((*others, *([_launching(issuing, owners)] if issuing else [])))
    if longest is not None and longest.owner.owned_ns >= LEAST_OWNED_SHARE * owners.wall_ns:
        return longest
    return _longest(Loss(owner) for owner in owners.owners if owner.kind == "gpu")


def on_the_cpu(owners: Owners | None) -> Loss | None:
    """Where a step goes that no GPU takes part in: the longest that is not the training's own work, unless next to
    nothing is; then that work, as the one of its parts that is most of it, else as a whole. None where nobody knows."""
    if owners is None:
        return None
    located = [owner for owner in owners.ordinary.owners if owner.locations and owner.reason is None]
    own = [owner for owner in located if not _beside_training(owner)]
    longest = max(own, key=lambda owner: owner.owned_ns, default=None)
    longest_ns = longest.owned_ns if longest is not None else 0
    first = max((owner for owner in located if owner not in own), key=lambda owner: owner.owned_ns, default=None)
    if first is not None and first.owned_ns >= LEAST_BESIDE_SHARE * owners.wall_ns:
        return Loss(first, beside_training=first.owned_ns < longest_ns)
    total_ns = sum(owner.owned_ns for owner in own)
    if longest is None or total_ns < LEAST_OWNED_SHARE * owners.wall_ns or located[0] not in own:
        return None
    if longest_ns >= MOSTLY * total_ns:
        return Loss(longest)
    return Loss(replace(longest, owned_ns=total_ns, callee=None), of_training=tuple(own))


def _beside_training(owner: Owner) -> bool:
    """The DataLoader, or a line that calls something else than an operation of torch."""
    if owner.kind != "host_line":
        return owner.kind == "dataloader"
    return owner.callee is not None and "::" not in owner.callee


def _count(owner: Owner) -> int:
    """Waits that pay only together are one owner, whose group names them all."""
    return 1 + (owner.group or "").count("+") if owner.kind in ("wait", "copy") else 1


def _longest(losses: Iterable[Loss]) -> Loss | None:
    return max(losses, key=lambda loss: loss.owner.owned_ns, default=None)


def _pays(owner: Owner, owners: Owners, step: StepFacts) -> bool:
    """Whether removing it gives something back for certain; without a replay, whether it fills the gaps."""
    if owner.recoverable_ns is not None:
        if owner.low_ns is None:
            return _is_large(owner.recoverable_ns, step)
        return owner.low_ns >= LEAST_CERTAIN_SHARE * step.step_ns
    return owner.kind in REMOVABLE and step.gpu_busy_share < MOST_BUSY and owner == owners.gap_filler()


def _unsure(owners: Owners, step: StepFacts) -> list[Loss]:
    """Lines, and what else has a name, that most likely give back a part of the step that is worth naming, and may give
    back nothing. Beside a busy GPU that is no cause, nor is it at a line where the GPU was not seen to idle."""
    seen_ns = LEAST_RECOVERABLE_SHARE * owners.wall_ns
    if step.gpu_busy_share >= MOST_BUSY:
        return []
    return [
        Loss(owner, _count(owner), idle_ns=_idle_at_its_line(owner, owners, spread=True))
        for owner in (*owners.owners, *_loops(owners))
        if owner.low_ns is not None
        and owner.low_ns < LEAST_CERTAIN_SHARE * step.step_ns
        and (owner.recoverable_ns or 0) >= LEAST_OWNED_SHARE * step.step_ns
        and (owner.locations or owner.kind not in OF_A_LINE)
        and owner.reason is None
        and _idle_at_its_line(owner, owners) >= seen_ns
    ]


def _idle_at_its_line(owner: Owner, owners: Owners, spread: bool = False) -> int:
    """Waiting, launching and Python of one line are owners of their own: what they own together. Of launches those that
    are all made there, and with `spread` its part of those that several lines make."""
    if owner.kind not in OF_A_LINE or owner.loop is not None:
        return owner.owned_ns
    lines = {(place.path, place.line) for place in (owner.locations if _count(owner) > 1 else owner.locations[:1])}
    there = [one for one in owners.owners if one.kind in OF_A_LINE and one.locations and one.reason is None]
    own_ns = sum(
        one.owned_ns
        for one in there
        if (one.locations[0].path, one.locations[0].line) in lines and (one.kind != "launch" or one.of_one_line)
    )
    parts = ((place, share * one.owned_ns) for one in there for place, share in one.line_shares)
    return own_ns + round(sum(ns for place, ns in parts if spread and (place.path, place.line) in lines))


def _loops(owners: Owners) -> list[Owner]:
    """Loops of which no line gives back nearly as much by itself."""
    return [loop for loop in owners.loops if _recovered(loop) >= TOGETHER * _best_of(loop, owners)]


def _best_of(loop: Owner, owners: Owners) -> int:
    lines = {(place.path, place.line) for place in loop.locations}
    mine = (one for one in owners.owners if one.locations and (one.locations[0].path, one.locations[0].line) in lines)
    return max(map(_recovered, mine), default=0)


def _recovered(owner: Owner) -> int:
    return owner.recoverable_ns or 0


def _known(owner: Owner) -> bool:
    """Not an owner that only a replay gave rise to, or that removing would not shorten the step."""
    return owner.owned_ns > 0 and (owner.recoverable_ns is None or owner.recoverable_ns > 0)


def _is_large(recoverable_ns: int, step: StepFacts) -> bool:
    """For a number without a range: beside a GPU that is busy all the time it must be more than what runs vary by."""
    return step.gpu_busy_share < MOST_BUSY or recoverable_ns >= LEAST_OWNED_SHARE * step.step_ns


def _waits_together(owners: Owners, step: StepFacts) -> list[Loss]:
    """All waits as one loss, where they give back more together than any does alone."""
    waits = [owner for owner in owners.owners if owner.kind in ("wait", "copy") and owner.group is not None]
    best = max((owner.recoverable_ns or 0 for owner in waits), default=0)
    together_ns = step.together_ns
    if len(waits) < 2 or together_ns is None or together_ns < TOGETHER * best or not _is_large(together_ns, step):
        return []
    waits.sort(key=lambda owner: -(owner.recoverable_ns or 0))
    kind: OwnerKind = "copy" if all(owner.kind == "copy" for owner in waits) else "wait"
    both = Owner(
        kind,
        sum(owner.owned_ns for owner in waits),
        locations=_first_lines(waits),
        group="+".join(str(owner.group) for owner in waits),
        recoverable_ns=together_ns,
        evidence="replayed",
    )
    return [Loss(both, len(waits))]


def _first_lines(owners: Iterable[Owner]) -> tuple[Location, ...]:
    return tuple(dict.fromkeys(owner.locations[0] for owner in owners if owner.locations))


def _issuing(owners: Owners) -> Owner | None:
    """All that issues work as one owner, if that is what the GPU waits for."""
    parts = sorted((owner for owner in owners.owners if owner.kind in ISSUING_KINDS), key=lambda owner: -owner.owned_ns)
    total = sum(owner.owned_ns for owner in parts)
    if not parts or total < LEAST_ISSUING_SHARE * owners.wall_ns or owners.gap_filler() is not None:
        return None
    kind = next((kind for kind in ISSUING_KINDS[1:] if _sum(parts, kind) >= MOSTLY * total), None)
    if kind is not None:
        first = next(owner for owner in parts if owner.kind == kind)
        return Owner(kind, _sum(parts, kind), locations=first.locations, callee=first.callee)
    launches = next((owner for owner in parts if owner.kind == "launch"), parts[0])
    return Owner("launch", total, locations=launches.locations)


def _launching(issuing: Owner, owners: Owners) -> Loss:
    """With the number of launches, where that is what makes them take so long."""
    count = owners.launches_per_step or 0.0
    return Loss(issuing, launches=count if issuing.kind == "launch" and count >= FEWEST_LAUNCHES else None)


def _sum(owners: Iterable[Owner], kind: OwnerKind) -> int:
    return sum(owner.owned_ns for owner in owners if owner.kind == kind)
