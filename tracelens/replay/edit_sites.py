"""Where a set of Edits acts on a ReplayTrace, and which parts of its steps it leaves unchanged.

In: a ReplayTrace, Edits. Out: an `EditPlan`, and per step a `SplitStep` that separates what is rewritten from what is
not. None of this depends on the calibration, so it is computed once and used for all Monte Carlo samples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tracelens.edit_kinds import NotReplayed, ReplayRule, replay_rule
from tracelens.model import Edit
from tracelens.replay.replay_trace import HostOp, OpBlock, ReplayTrace, Step, UntouchedSpan, single

EditSite = tuple[str, int]


@dataclass(frozen=True, slots=True)
class EditPlan:
    """Which rules of the replay act at which site, with what interval."""

    places: dict[EditSite, dict[ReplayRule, int]]
    intervals: tuple[int, ...]
    depth: int
    batch_copies: frozenset[EditSite]
    """Places where a batch goes to the GPU: only copy Edits act there."""

    def rules(self, item: HostOp) -> dict[ReplayRule, int]:
        return self.places.get(site_of(item), {})

    def pins(self, item: HostOp) -> bool:
        return item.kind == "staged" and "pinned-copy" in self.rules(item)


class TouchedOp(NamedTuple):
    """An Item that the Edits may change, or that stands beside one."""

    position: int
    """In its step."""
    item: HostOp
    rules: dict[ReplayRule, int]
    """What the Edits do to it, each with its interval."""
    carries: bool
    """It brings a batch to the GPU."""


@dataclass(frozen=True, slots=True)
class SplitStep:
    """One step, taken apart for a Plan."""

    parts: tuple[UntouchedSpan | tuple[TouchedOp, ...], ...]
    """Untouched stretches, and the Items between them. The first part is one of
    Items: what an Edit adds to a step's beginning is compiled together with it."""
    copies: tuple[HostOp, ...]
    """Copies of batches to the GPU that an Edit changes."""
    pinned: tuple[HostOp, ...]
    """Copies whose source will be pinned."""
    loaders: tuple[HostOp, ...]
    dropping: tuple[tuple[int, HostOp], ...]
    """Items before which the loop gives back the memory of a batch, with their positions."""


def plan(trace: ReplayTrace, edits: Sequence[Edit]) -> EditPlan:
    """The places that the Edits address."""
    places: dict[EditSite, dict[ReplayRule, int]] = {}
    for edit in edits:
        rule = replay_rule(edit.kind)
        if isinstance(rule, NotReplayed):
            continue
        for place in _addressed(trace, edit, rule):
            chosen = places.setdefault(place, {})
            chosen[rule] = max(edit.interval, chosen.get(rule, 1))
    intervals = sorted({interval for chosen in places.values() for interval in chosen.values() if interval > 1})
    depth = max((edit.depth or 1 for edit in edits if replay_rule(edit.kind) == "copy-ahead"), default=0)
    return EditPlan(places, tuple(intervals), depth, frozenset(_batch_copies(trace)))


def split(step: Step, chosen: EditPlan) -> SplitStep:
    """A step's untouched stretches and what lies between them."""
    own = tuple(single(step))
    copies = tuple(item for item in own if item.engine == "h2d" and chosen.rules(item))
    pinned = tuple(item for item in own if chosen.pins(item))
    return SplitStep(
        parts=tuple(_parts(step, chosen, bool(copies))),
        copies=copies,
        pinned=pinned,
        loaders=tuple(item for item in own if item.kind == "loader"),
        dropping=tuple(_dropping(step, chosen, {site_of(item) for item in pinned})),
    )


def site_of(item: HostOp) -> EditSite:
    """Where an Edit acts: a copy and the synchronize behind it are one place."""
    return ("pair", item.pair) if item.pair >= 0 else ("wait", item.wait) if item.wait >= 0 else ("call", item.call)


def stall_waits(trace: ReplayTrace, stalls: Collection[str]) -> frozenset[int]:
    """The waits of these Stalls; a Stall the ReplayTrace does not know has none."""
    return frozenset(wait for name in stalls if name in trace.stalls for wait in trace.stalls[name].waits)


def calls(trace: ReplayTrace, waits: Collection[int]) -> set[int]:
    """The calls behind these waits. A copy takes the synchronize behind it along: it is one call of the user's. The
    synchronize behind a batch's copy goes alone, because that copy has a wait of its own."""
    found: set[int] = set()
    for step in trace.steps:
        batch = {item.pair for item in single(step) if item.engine == "h2d" and item.pair >= 0}
        named = [item for item in single(step) if item.wait in waits and item.wait >= 0]
        pairs = {item.pair for item in named if item.pair >= 0 and (item.engine or item.pair not in batch)}
        found |= {item.call for item in single(step) if item.pair in pairs} | {item.call for item in named}
    return found


# ---------------------------------------------------------------------------------------------------- the places


def _addressed(trace: ReplayTrace, edit: Edit, rule: ReplayRule) -> set[EditSite]:
    """The places of an Edit's Stalls; a copy Edit that names none acts on every pageable or waited-for batch copy."""
    if edit.stalls:
        return _waiting(trace, stall_waits(trace, edit.stalls))
    if rule not in ("pinned-copy", "copy-ahead"):
        return set()
    return _batch_copies(trace)


def _batch_copies(trace: ReplayTrace) -> set[EditSite]:
    return {
        site_of(item) for step in trace.steps for item in single(step) if item.engine == "h2d" and not item.detached
    }


def _waiting(trace: ReplayTrace, waits: Collection[int]) -> set[EditSite]:
    return {site_of(item) for step in trace.steps for item in single(step) if item.wait in waits and item.wait >= 0}


# ------------------------------------------------------------------------------------------------------- the cuts


def _parts(step: Step, chosen: EditPlan, copies: bool) -> Iterator[UntouchedSpan | tuple[TouchedOp, ...]]:
    """Stretches end where Blocks do: a run of launches that collapses into one op never crosses that edge."""
    untouched: list[HostOp | OpBlock] = []
    for first, group in _groups(step):
        if first and not any(_touched(before, item, chosen, copies) for before, item in pairwise((None, *group))):
            untouched += group
            continue
        if untouched:
            yield UntouchedSpan(tuple(untouched))
            untouched = []
        yield tuple(
            TouchedOp(position, item, chosen.rules(item), site_of(item) in chosen.batch_copies)
            for position, item in enumerate(group, first)
            if isinstance(item, HostOp)
        )
    if untouched:
        yield UntouchedSpan(tuple(untouched))


def _groups(step: Step) -> Iterator[tuple[int, Sequence[HostOp | OpBlock]]]:
    """The Blocks of a step, and the Items between two of them together; with their positions."""
    first, run = 0, list[HostOp | OpBlock]()
    for position, element in enumerate(step):
        if isinstance(element, OpBlock):
            yield first, run
            yield position, (element,)
            first, run = position + 1, []
        else:
            run.append(element)
    yield first, run


def _touched(before: HostOp | OpBlock | None, item: HostOp | OpBlock | None, chosen: EditPlan, copies: bool) -> bool:
    """Whether the Edits may change an Item: its own place, what the loader does, or the host time behind either."""
    if not isinstance(item, HostOp):
        return False
    behind = isinstance(before, HostOp) and (before.kind == "loader" or bool(chosen.rules(before)))
    return bool(chosen.rules(item)) or (copies and (behind or item.kind == "loader"))


def _dropping(step: Step, chosen: EditPlan, places: Iterable[EditSite]) -> Iterator[tuple[int, HostOp]]:
    """The memory of a batch goes when the loop drops it: right after its copy, or when the next batch takes its
    name."""
    for position, (before, item) in enumerate(pairwise(step), start=1):
        if isinstance(before, OpBlock) or isinstance(item, OpBlock):
            continue
        left = site_of(before) in places and site_of(item) not in places
        if before.kind == "loader" or left or chosen.pins(before):
            yield position, item
