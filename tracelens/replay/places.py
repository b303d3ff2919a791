"""Where a set of Edits acts on a Tape, and which stretches of its steps it leaves alone.

In: a Tape, Edits. Out: a `Plan`, and per step a `Cut`: what is rewritten, beside what is not. Apart from the rewriting,
because none of this depends on the calibration: it is found once for all draws from the constants' ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tracelens.model import Edit, EditKind
from tracelens.replay.items import Block, Item, Step, Stretch, Tape, single

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Which Edits act at which place, with what interval."""

    places: dict[Place, dict[EditKind, int]]
    intervals: tuple[int, ...]
    depth: int
    batch_copies: frozenset[Place]
    """Places where a batch goes to the GPU: only copy Edits act there."""

    def kinds(self, item: Item) -> dict[EditKind, int]:
        return self.places.get(place_of(item), {})

    def pins(self, item: Item) -> bool:
        return item.kind == "staged" and "async-copy" in self.kinds(item)


class Touched(NamedTuple):
    """An Item that the Edits may change, or that stands beside one."""

    position: int
    """In its step."""
    item: Item
    kinds: dict[EditKind, int]
    """Edits that act on it, each with its interval."""
    carries: bool
    """It brings a batch to the GPU."""


@dataclass(frozen=True, slots=True)
class Cut:
    """One step, taken apart for a Plan."""

    parts: tuple[Stretch | tuple[Touched, ...], ...]
    """Untouched stretches, and the Items between them. The first part is one of
    Items: what an Edit adds to a step's beginning is compiled together with it."""
    copies: tuple[Item, ...]
    """Copies of batches to the GPU that an Edit changes."""
    pinned: tuple[Item, ...]
    """Copies whose source will be pinned."""
    loaders: tuple[Item, ...]
    dropping: tuple[tuple[int, Item], ...]
    """Items before which the loop gives back the memory of a batch, with their positions."""


def plan(tape: Tape, edits: Sequence[Edit]) -> Plan:
    """The places that the Edits address."""
    places: dict[Place, dict[EditKind, int]] = {}
    for edit in edits:
        for place in _addressed(tape, edit):
            chosen = places.setdefault(place, {})
            chosen[edit.kind] = max(edit.interval, chosen.get(edit.kind, 1))
    intervals = sorted({interval for chosen in places.values() for interval in chosen.values() if interval > 1})
    depth = max((edit.depth or 1 for edit in edits if edit.kind == "prefetch"), default=0)
    return Plan(places, tuple(intervals), depth, frozenset(_batch_copies(tape)))


def cut(step: Step, chosen: Plan) -> Cut:
    """A step's untouched stretches and what lies between them."""
    own = tuple(single(step))
    copies = tuple(item for item in own if item.engine == "h2d" and chosen.kinds(item))
    pinned = tuple(item for item in own if chosen.pins(item))
    return Cut(
        parts=tuple(_parts(step, chosen, bool(copies))),
        copies=copies,
        pinned=pinned,
        loaders=tuple(item for item in own if item.kind == "loader"),
        dropping=tuple(_dropping(step, chosen, {place_of(item) for item in pinned})),
    )


def place_of(item: Item) -> Place:
    """Where an Edit acts: a copy and the synchronize behind it are one place."""
    return ("pair", item.pair) if item.pair >= 0 else ("wait", item.wait) if item.wait >= 0 else ("call", item.call)


def stall_waits(tape: Tape, stalls: Collection[str]) -> frozenset[int]:
    """The waits of these Stalls; a Stall the Tape does not know has none."""
    return frozenset(wait for name in stalls if name in tape.stalls for wait in tape.stalls[name].waits)


def calls(tape: Tape, waits: Collection[int]) -> set[int]:
    """The calls behind these waits. A copy takes the synchronize behind it along: it is one call of the user's. The
    synchronize behind a batch's copy goes alone, because that copy has a wait of its own."""
    found: set[int] = set()
    for step in tape.steps:
        batch = {item.pair for item in single(step) if item.engine == "h2d" and item.pair >= 0}
        named = [item for item in single(step) if item.wait in waits and item.wait >= 0]
        pairs = {item.pair for item in named if item.pair >= 0 and (item.engine or item.pair not in batch)}
        found |= {item.call for item in single(step) if item.pair in pairs} | {item.call for item in named}
    return found


# ---------------------------------------------------------------------------------------------------- the places


def _addressed(tape: Tape, edit: Edit) -> set[Place]:
    """The places of an Edit's Stalls; a copy Edit that names none acts on every pageable or waited-for batch copy."""
    if edit.stalls:
        return _waiting(tape, stall_waits(tape, edit.stalls))
    if edit.kind not in ("async-copy", "prefetch"):
        return set()
    return _batch_copies(tape)


def _batch_copies(tape: Tape) -> set[Place]:
    return {
        place_of(item) for step in tape.steps for item in single(step) if item.engine == "h2d" and not item.detached
    }


def _waiting(tape: Tape, waits: Collection[int]) -> set[Place]:
    return {place_of(item) for step in tape.steps for item in single(step) if item.wait in waits and item.wait >= 0}


# ------------------------------------------------------------------------------------------------------- the cuts


def _parts(step: Step, chosen: Plan, copies: bool) -> Iterator[Stretch | tuple[Touched, ...]]:
    """Stretches end where Blocks do: a run of launches that collapses into one op never crosses that edge."""
    untouched: list[Item | Block] = []
    for first, group in _groups(step):
        if first and not any(_touched(before, item, chosen, copies) for before, item in pairwise((None, *group))):
            untouched += group
            continue
        if untouched:
            yield Stretch(tuple(untouched))
            untouched = []
        yield tuple(
            Touched(position, item, chosen.kinds(item), place_of(item) in chosen.batch_copies)
            for position, item in enumerate(group, first)
            if isinstance(item, Item)
        )
    if untouched:
        yield Stretch(tuple(untouched))


def _groups(step: Step) -> Iterator[tuple[int, Sequence[Item | Block]]]:
    """The Blocks of a step, and the Items between two of them together; with their positions."""
    first, run = 0, list[Item | Block]()
    for position, element in enumerate(step):
        if isinstance(element, Block):
            yield first, run
            yield position, (element,)
            first, run = position + 1, []
        else:
            run.append(element)
    yield first, run


def _touched(before: Item | Block | None, item: Item | Block | None, chosen: Plan, copies: bool) -> bool:
    """Whether the Edits may change an Item: its own place, what the loader does, or the host time behind either."""
    if not isinstance(item, Item):
        return False
    behind = isinstance(before, Item) and (before.kind == "loader" or bool(chosen.kinds(before)))
    return bool(chosen.kinds(item)) or (copies and (behind or item.kind == "loader"))


def _dropping(step: Step, chosen: Plan, places: Iterable[Place]) -> Iterator[tuple[int, Item]]:
    """The memory of a batch goes when the loop drops it: right after its copy, or when the next batch takes its
    name."""
    for position, (before, item) in enumerate(pairwise(step), start=1):
        if isinstance(before, Block) or isinstance(item, Block):
            continue
        left = place_of(before) in places and place_of(item) not in places
        if before.kind == "loader" or left or chosen.pins(before):
            yield position, item
