"""The owner that a verdict is about where no scheme is: one line, the DataLoader or the allocator keeps the GPU idle.

In: Facts. Out: that Owner, and its sentence. "Launch-bound" is the answer only where there is no such owner: many short
launches, none of which is long.
"""

from __future__ import annotations

from tracelens.model import Owner, Owners
from tracelens.schemes.wording import cost, ms, place

HOST_KINDS = ("host_line", "dataloader", "allocator", "optimizer", "backward", "launch")
RESPONSIBLE_KINDS = ("host_line", "dataloader", "allocator")
LEAST_HOST_SHARE = 0.2
"""Of the idle time that the host makes: with less, launching is what the GPU waits for."""
LEAST_STEP_SHARE = 0.05
LEAST_RECOVERABLE_SHARE = 0.01
"""Of the step, at the low end of the range: what is below drowns in the variation between two runs."""
_LOADER_HELPS = "more DataLoader workers, cheaper preprocessing, cached samples would help"
MOST_BUSY = 0.9
"""A GPU that is busier than this limits the loop itself."""


def responsible_owner(owners: Owners | None, gpu_busy_share: float | None) -> Owner | None:
    """The largest single owner of idle time that is no launching, if it is large enough to be the answer."""
    if owners is None or (gpu_busy_share or 0.0) >= MOST_BUSY:
        return None
    host_ns = sum(owner.owned_ns for owner in owners.owners if owner.kind in HOST_KINDS)
    candidates = [owner for owner in owners.owners if owner.kind in RESPONSIBLE_KINDS and _worth_it(owner, owners)]
    largest = max(candidates, key=lambda owner: owner.owned_ns, default=None)
    if largest is None or largest.owned_ns < max(LEAST_HOST_SHARE * host_ns, LEAST_STEP_SHARE * owners.wall_ns):
        return None
    return largest


def _worth_it(owner: Owner, owners: Owners) -> bool:
    return owner.low_ns is None or owner.low_ns >= LEAST_RECOVERABLE_SHARE * owners.wall_ns


def keeps_idle(owner: Owner, step_ns: int) -> str:
    """'train.py:88 (gc.collect) keeps the GPU idle for 139 ms per step; without it a step takes 12.6 ms (replayed)'."""
    text = f"{subject(owner)} keeps the GPU idle for {cost(owner.owned_ns)}"
    if owner.recoverable_ns is not None and 0 < owner.recoverable_ns < step_ns:
        change = "with enough workers" if owner.kind == "dataloader" else "without it"
        return f"{text}; {change} a step takes {ms(step_ns - owner.recoverable_ns)} ({owner.evidence})"
    return f"{text}; {_LOADER_HELPS}" if owner.kind == "dataloader" else text


def subject(owner: Owner) -> str:
    """Who it is, in a few words: the line and what it calls."""
    where = place(owner.locations[0]) if owner.locations else ""
    if owner.kind == "dataloader":
        return f"the DataLoader ({where})" if where else "the DataLoader"
    called = f"{where} ({owner.callee})" if where and owner.callee else where or owner.callee
    return called or "Python between the launches"
