"""Fit the schemes to one loop: which Edits, at which waits; or why a scheme does not apply.

In: rules, the Stalls, the inventory of what the loop does already. Out: per scheme its Edits or a reason. An Edit
that is present already is not offered. What an Edit buys is not known here; `keep_paying` drops the part of a scheme
that an estimator, handed in as a function, finds worthless on this run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tracelens.model import Abstention, Edit, EditKind, Estimate, InventoryItem, Location, Stall
from tracelens.schemes.catalog import EditTemplate, Rules, SchemeRule
from tracelens.schemes.wording import place

DEFAULT_INTERVAL = 10
"""The seeds' N: every 10 batches, as their loop already read its losses."""
MOST_INTERVAL = 1_000
"""A loop that reads more rarely than this loses nothing by it, and the replay has to run through N batches."""

PER_BATCH = 0.5
"""A wait that occurs in less than half of the steps is spaced out already; the Edits are about each batch."""

WORTH_SHARE = 0.005
"""A part of a scheme is kept if it shortens the step by half a percent: less is below any range that replay gives."""

NO_GPU = "no GPU work was recorded: whether it applies cannot be told"

_STEERING_CALLS = frozenset(
    {"__bool__", "__index__", "is_nonzero", "nonzero", "unique", "masked_select", "where", "equal", "allclose"}
)
"""Calls whose value decides what the host does next: it cannot be read later without changing the program."""

_FAMILIES: tuple[frozenset[EditKind], ...] = (
    frozenset({"thin-logs"}),
    frozenset({"move-guard"}),
    frozenset({"more-workers"}),
    frozenset({"prefetch"}),
    frozenset({"async-copy", "prefetch"}),
    frozenset({"event-sync", "interval-sync", "defer-read"}),
)
"""Edits that are judged together: a wait removed alone gains nothing while the one after it stays, and a batch
cannot be prefetched from memory that is not pinned."""


_BESIDE_THE_LOADER = frozenset({"async-copy", "prefetch"})
"""What a scheme of several Edits leaves out where the loader has no workers. Pinning would run in the training thread:
beside deferred reads it was predicted to give 1.3 ms per step and cost 4.5 ms on the H200 (12.6 MB per batch); fetching
ahead would move the loader's random draws. Alone (`pinned-copy`) it can still be tried."""


def edits(
    rules: Rules,
    stalls: tuple[Stall, ...],
    inventory: tuple[InventoryItem, ...],
    interval: int | None = None,
    offered: Mapping[str, tuple[Edit, ...]] | None = None,
) -> dict[str, tuple[Edit, ...] | str]:
    """Per scheme its Edits on this loop, or the sentence that says why it does not apply.

    `offered`: the unsafe Edits that will be made beside them; what a scheme needs may be one of these.
    """
    loop = _Loop.of(stalls, inventory, chosen_interval(inventory, interval))
    if not stalls and _unknown(inventory, "host_copies"):
        return dict.fromkeys((rule.id for rule in rules.schemes), NO_GPU)
    return {rule.id: _fitted(rule, loop, (offered or {}).get(rule.id, ())) for rule in rules.schemes}


def offers(
    rules: Rules,
    stalls: tuple[Stall, ...],
    inventory: tuple[InventoryItem, ...],
    interval: int | None = None,
    workers: int | None = None,
) -> dict[str, tuple[Edit, ...]]:
    """Per scheme the Edits that only --unsafe makes. `workers`: how many the loader should get; None for no more."""
    loop = _Loop.of(stalls, inventory, chosen_interval(inventory, interval))
    return {
        rule.id: tuple(edit for kind in rule.unsafe if (edit := _offer(kind, loop, inventory, workers)) is not None)
        for rule in rules.schemes
    }


def chosen_interval(inventory: tuple[InventoryItem, ...], asked: int | None = None) -> int:
    """N: what was asked for, else the K by which the loop already reads, else the seeds' 10."""
    if asked is not None:
        return asked
    existing = _item(inventory, "reads_every_k")
    known = existing is not None and existing.present and existing.value
    return min(known, MOST_INTERVAL) if known else DEFAULT_INTERVAL


def keep_paying(
    edits: tuple[Edit, ...], estimate: Callable[[tuple[Edit, ...]], Estimate | Abstention]
) -> tuple[Edit, ...]:
    """The Edits without the families that buy nothing on this run. At least one family always stays."""
    kept = edits
    for family in _FAMILIES:
        without = tuple(edit for edit in kept if edit.kind not in family)
        if not without or len(without) == len(kept):
            continue
        whole, rest = estimate(kept), estimate(without)
        if not (isinstance(whole, Estimate) and isinstance(rest, Estimate)):
            continue
        if rest.step_ns <= whole.step_ns * (1 + WORTH_SHARE):
            kept = without
    return kept


def judged(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The Edits without those on which a replay cannot say anything, unless there is no other."""
    kept = tuple(edit for edit in edits if edit.kind != "persistent-workers")
    return kept or edits


# ------------------------------------------------------------------------------------------------------- the loop


@dataclass(frozen=True, slots=True)
class _Loop:
    """The waits of one loop sorted by what can be done about them, and what it has already."""

    synchronizes: tuple[Stall, ...]
    events: tuple[Stall, ...]
    reads: tuple[Stall, ...]
    steering: tuple[Stall, ...]
    copies: tuple[Stall, ...]
    copied: bool
    """Batches are copied to the GPU in the loop, waited for or not."""
    copies_async: bool
    pinned: bool
    """Batches are known to come from pinned memory."""
    prefetched: bool
    in_process: bool
    """The loader works in the training thread (num_workers=0)."""
    interval: int

    @staticmethod
    def of(stalls: tuple[Stall, ...], inventory: tuple[InventoryItem, ...], interval: int) -> _Loop:
        each = [stall for stall in stalls if stall.verdict != "window_edge" and _in_each_batch(stall)]
        reads = [stall for stall in each if stall.kind == "d2h"]
        copies = tuple(stall for stall in each if stall.kind == "h2d")
        pinned, unblocked = _present(inventory, "pinned_memory"), _present(inventory, "non_blocking_copies")
        return _Loop(
            synchronizes=tuple(stall for stall in each if stall.kind in ("device", "stream")),
            events=tuple(stall for stall in each if stall.kind == "event"),
            reads=tuple(stall for stall in reads if not _steers(stall)),
            steering=tuple(stall for stall in reads if _steers(stall)),
            copies=copies,
            copied=bool(copies) or _present(inventory, "host_copies") is True,
            copies_async=not copies and pinned is not False and unblocked is not False,
            pinned=pinned is True,
            prefetched=_present(inventory, "copy_stream") is True,
            in_process=_present(inventory, "loader_workers") is False,
            interval=interval,
        )


def _fitted(rule: SchemeRule, loop: _Loop, offered: tuple[Edit, ...] = ()) -> tuple[Edit, ...] | str:
    """The scheme's Edits that find something to act on; a reason when one of its needs is not met."""
    found = tuple(edit for template in rule.edits if (edit := _edit(template, loop)) is not None)
    if loop.in_process and {template.kind for template in rule.edits} != {"async-copy"}:
        found = tuple(edit for edit in found if edit.kind not in _BESIDE_THE_LOADER)
    kinds = {edit.kind for edit in (*found, *offered)}
    if "per_batch_wait" in rule.needs and not kinds & {"event-sync", "interval-sync", "defer-read", "move-guard"}:
        return _no_wait(rule, loop)
    if "host_copy" in rule.needs and not kinds & {"async-copy", "prefetch", "more-workers"}:
        return _no_copy(loop)
    return found if found else "there is nothing in this loop that it would change"


def _edit(template: EditTemplate, loop: _Loop) -> Edit | None:
    interval = loop.interval if template.interval is None else template.interval
    match template.kind:
        case "event-sync":
            return _at(Edit("event-sync"), loop.synchronizes)
        case "interval-sync":
            return _at(Edit("interval-sync", interval=interval), loop.synchronizes + loop.events)
        case "defer-read":
            return _at(Edit("defer-read", interval=interval), loop.reads)
        case "async-copy":
            if loop.copied and not loop.copies_async:
                return _at(Edit("async-copy"), loop.copies, needed=False)
        case "prefetch":
            if loop.copied and not loop.prefetched:
                return _at(Edit("prefetch", depth=template.depth), loop.copies, needed=False)
    return None


def _offer(kind: EditKind, loop: _Loop, inventory: tuple[InventoryItem, ...], workers: int | None) -> Edit | None:
    places = tuple(dict.fromkeys(stall.location for stall in loop.copies if stall.location is not None))
    match kind:
        case "thin-logs" if loop.interval > 1:
            return _at(Edit("thin-logs", interval=loop.interval), loop.reads)
        case "move-guard" if loop.interval > 1:
            return _at(Edit("move-guard", interval=loop.interval), loop.reads + loop.steering)
        case "more-workers" if workers is not None:
            return Edit("more-workers", locations=places, workers=workers)
        case "persistent-workers" if _present(inventory, "loader_workers"):
            kept = _present(inventory, "persistent_workers")
            return None if kept else Edit("persistent-workers", locations=places)
    return None


def _at(edit: Edit, stalls: tuple[Stall, ...], *, needed: bool = True) -> Edit | None:
    """The Edit tied to its waits; None when it needs some and there are none."""
    if needed and not stalls:
        return None
    locations: dict[Location, None] = {stall.location: None for stall in stalls if stall.location is not None}
    return replace(edit, stalls=tuple(stall.id for stall in stalls), locations=tuple(locations))


def _no_wait(rule: SchemeRule, loop: _Loop) -> str:
    if loop.steering:
        location = place(loop.steering[0].location)
        where = f" at {location}" if location else ""
        return f"the value read{where} decides what the host does next: it cannot be read later"
    if loop.events and rule.id == "event-sync":
        return "the loop waits for events already"
    return "the loop neither synchronizes nor reads a value in each batch"


def _no_copy(loop: _Loop) -> str:
    if not loop.copied:
        return "the loop copies no batch to the GPU"
    if loop.in_process and not (loop.copies_async or loop.prefetched):
        return "the loader works in the training thread (num_workers=0): nothing can be pinned or fetched beside it"
    if loop.prefetched:
        return "batches travel on a copy stream already"
    pinned = "batches are copied from pinned memory without blocking already"
    return pinned if loop.pinned else "no copy of a batch makes the host wait"


def _in_each_batch(stall: Stall) -> bool:
    often = stall.calls_per_step if stall.step_share is None else stall.step_share
    return often >= PER_BATCH


def _steers(stall: Stall) -> bool:
    return stall.call is not None and stall.call.rpartition(".")[2] in _STEERING_CALLS


def _item(inventory: tuple[InventoryItem, ...], name: str) -> InventoryItem | None:
    return next((item for item in inventory if item.id == name), None)


def _unknown(inventory: tuple[InventoryItem, ...], name: str) -> bool:
    item = _item(inventory, name)
    return item is not None and item.present is None


def _present(inventory: tuple[InventoryItem, ...], name: str) -> bool | None:
    item = _item(inventory, name)
    return item.present if item else None
