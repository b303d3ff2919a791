"""Fit the schemes to one loop: which Edits, at which waits; or why a scheme does not apply.

In: rules, the Stalls, the inventory of what the loop does already. Out: per scheme its Edits or a reason. An Edit
that is present already is not offered. What an Edit buys is not known here; `keep_paying` drops the part of a scheme
that an estimator, handed in as a function, finds worthless on this run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import get_args

from tracelens.edit_kinds import LoopCondition, NotReplayed, WaitGroup, definition, replay_rule
from tracelens.messages import say
from tracelens.model import Abstention, Edit, Estimate, InventoryItem, Stall
from tracelens.schemes.catalog import EditTemplate, Rules, SchemeRule
from tracelens.schemes.families import dropped_together
from tracelens.schemes.wording import place

DEFAULT_INTERVAL = 10
"""The seeds' N: every 10 batches, as their loop already read its losses."""
MOST_INTERVAL = 1_000
"""A loop that reads more rarely than this loses nothing by it, and the replay has to run through N batches."""

PER_BATCH = 0.5
"""A wait that occurs in less than half of the steps is spaced out already; the Edits are about each batch."""

WORTH_SHARE = 0.005
"""A part of a scheme is kept if it shortens the step by half a percent: less is below any range that replay gives."""

NO_GPU = say("no GPU work was recorded: whether it applies cannot be told")

_STEERING_CALLS = frozenset(
    {"__bool__", "__index__", "is_nonzero", "nonzero", "unique", "masked_select", "where", "equal", "allclose"}
)
"""Calls whose value decides what the host does next: it cannot be read later without changing the program."""


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
    loop = _loop_waits(stalls, inventory, chosen_interval(inventory, interval))
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
    loop = _loop_waits(stalls, inventory, chosen_interval(inventory, interval), workers)
    return {
        rule.id: tuple(
            edit for kind in rule.unsafe if (edit := _fitted_edit(EditTemplate(kind, None, 1), loop)) is not None
        )
        for rule in rules.schemes
    }


def chosen_interval(inventory: tuple[InventoryItem, ...], asked: int | None = None) -> int:
    """N: what was asked for, else the K by which the loop already reads, else the seeds' 10."""
    if asked is not None:
        return asked
    existing = _item(inventory, "reads_every_k")
    known = existing is not None and existing.present and existing.value
    return min(known, MOST_INTERVAL) if known else DEFAULT_INTERVAL


@dataclass(frozen=True, slots=True)
class Replays:
    """What a replay of this run says of Edits."""

    estimate: Callable[[tuple[Edit, ...]], Estimate | Abstention]
    told_apart: Callable[[tuple[Edit, ...], tuple[Edit, ...]], bool | None]
    """Whether the step times after two sets of Edits differ by more than its noise."""


def keep_paying(edits: tuple[Edit, ...], replays: Replays) -> tuple[Edit, ...]:
    """The Edits without the families that buy nothing on this run. At least one family always stays."""
    kept = edits
    for family in dropped_together():
        without = tuple(edit for edit in kept if edit.kind not in family)
        if not without or len(without) == len(kept):
            continue
        whole, rest = replays.estimate(kept), replays.estimate(without)
        if not (isinstance(whole, Estimate) and isinstance(rest, Estimate)):
            continue
        doubtful = all(definition(kind).needs_known_gain for kind in family)
        if rest.step_ns <= whole.step_ns * (1 + WORTH_SHARE) or (doubtful and not replays.told_apart(kept, without)):
            kept = without
    return kept


def judged(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The Edits without those on which a replay cannot say anything, unless there is no other."""
    kept = tuple(edit for edit in edits if not isinstance(replay_rule(edit.kind), NotReplayed))
    return kept or edits


# ------------------------------------------------------------------------------------------------------- the loop


@dataclass(frozen=True, slots=True)
class _LoopWaits:
    """The waits of one loop, sorted by what can be done about them, and what the loop has already."""

    groups: Mapping[WaitGroup, tuple[Stall, ...]]
    copied: bool
    """Batches are copied to the GPU in the loop, waited for or not."""
    copies_async: bool
    pinned: bool
    """Batches are known to come from pinned memory."""
    prefetched: bool
    workers: bool | None
    """The loader has worker processes; False where it works in the training thread, None where that is unknown."""
    persistent: bool
    """Its workers are known to live on from one epoch to the next."""
    interval: int
    wanted_workers: int | None
    """How many workers the replay finds enough; None where more bring nothing, or where it was not computed."""


_CONDITIONS: Mapping[LoopCondition, Callable[[_LoopWaits], bool]] = {
    "copies-batches": lambda loop: loop.copied,
    "copies-block": lambda loop: not loop.copies_async,
    "no-copy-stream": lambda loop: not loop.prefetched,
    "interval-above-1": lambda loop: loop.interval > 1,
    "more-workers-pay": lambda loop: loop.wanted_workers is not None,
    "has-workers": lambda loop: loop.workers is True,
    "workers-end-with-epoch": lambda loop: not loop.persistent,
}
"""What each condition of `edit_kinds` asks of a loop."""


def _loop_waits(
    stalls: tuple[Stall, ...], inventory: tuple[InventoryItem, ...], interval: int, wanted_workers: int | None = None
) -> _LoopWaits:
    each = [stall for stall in stalls if stall.verdict != "window_edge" and _in_each_batch(stall)]
    groups: Mapping[WaitGroup, tuple[Stall, ...]] = {
        group: tuple(stall for stall in each if _group(stall) == group) for group in get_args(WaitGroup)
    }
    pinned, unblocked = _present(inventory, "pinned_memory"), _present(inventory, "non_blocking_copies")
    return _LoopWaits(
        groups=groups,
        copied=bool(groups["copy"]) or _present(inventory, "host_copies") is True,
        copies_async=not groups["copy"] and pinned is not False and unblocked is not False,
        pinned=pinned is True,
        prefetched=_present(inventory, "copy_stream") is True,
        workers=_present(inventory, "loader_workers"),
        persistent=_present(inventory, "persistent_workers") is True,
        interval=interval,
        wanted_workers=wanted_workers,
    )


def _group(stall: Stall) -> WaitGroup | None:
    """None for waits that no Edit acts on."""
    match stall.kind:
        case "device" | "stream":
            return "synchronize"
        case "event":
            return "event"
        case "d2h":
            return "steering-read" if _steers(stall) else "read"
        case "h2d":
            return "copy"
    return None


def _fitted(rule: SchemeRule, loop: _LoopWaits, offered: tuple[Edit, ...] = ()) -> tuple[Edit, ...] | str:
    """The scheme's Edits that find something to act on; a reason when one of its needs is not met."""
    found = tuple(edit for template in rule.edits if (edit := _fitted_edit(template, loop)) is not None)
    if loop.workers is False:
        alone = len({template.kind for template in rule.edits}) == 1
        found = tuple(edit for edit in found if _made_without_workers(edit, alone))
    met = {definition(edit.kind).meets for edit in (*found, *offered)}
    if "per_batch_wait" in rule.needs and "per_batch_wait" not in met:
        return _no_wait(rule, loop)
    if "host_copy" in rule.needs and "host_copy" not in met:
        return _no_copy(loop)
    return found if found else say("there is nothing in this loop that it would change")


def _made_without_workers(edit: Edit, alone: bool) -> bool:
    """Whether an Edit is made where the loader has no workers: pinning would run in the training thread.

    Beside deferred reads it was predicted to give 1.3 ms per step and cost 4.5 ms on the H200 (12.6 MB per batch).
    Fetching ahead would move the loader's random draws. As a scheme of its own, pinning can still be tried.
    """
    allowed = definition(edit.kind).without_workers
    return allowed == "made" or (allowed == "made-alone" and alone)


def _fitted_edit(template: EditTemplate, loop: _LoopWaits) -> Edit | None:
    """The Edit of a template, tied to the waits of this loop; None where it does not apply."""
    kind = definition(template.kind)
    stalls = tuple(stall for group in kind.acts_on for stall in loop.groups[group])
    if (kind.needs_wait and not stalls) or not all(_CONDITIONS[condition](loop) for condition in kind.conditions):
        return None
    return Edit(
        kind.id,
        stalls=tuple(stall.id for stall in stalls) if kind.ends_waits else (),
        locations=tuple(dict.fromkeys(stall.location for stall in stalls if stall.location is not None)),
        interval=(template.interval or loop.interval) if "interval" in kind.parameters else 1,
        depth=template.depth if "depth" in kind.parameters else 0,
        workers=(loop.wanted_workers or 0) if "workers" in kind.parameters else 0,
    )


def _no_wait(rule: SchemeRule, loop: _LoopWaits) -> str:
    steering = loop.groups["steering-read"]
    if steering:
        where = place(steering[0].location)
        if not where:
            return say("the value read decides what the host does next: it cannot be read later")
        return say("the value read at {where} decides what the host does next: it cannot be read later", where=where)
    if loop.groups["event"] and rule.id == "event-sync":
        return say("the loop waits for events already")
    return say("the loop neither synchronizes nor reads a value in each batch")


def _no_copy(loop: _LoopWaits) -> str:
    if not loop.copied:
        return say("the loop copies no batch to the GPU")
    if loop.workers is False and not (loop.copies_async or loop.prefetched):
        return say(
            "the loader works in the training thread (num_workers=0): nothing can be pinned or fetched beside it"
        )
    if loop.prefetched:
        return say("batches travel on a copy stream already")
    pinned = say("batches are copied from pinned memory without blocking already")
    return pinned if loop.pinned else say("no copy of a batch makes the host wait")


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
