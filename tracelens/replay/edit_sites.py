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
from tracelens.replay.replay_trace import HostOp, OpBlock, RecordedStep, ReplayTrace, UntouchedSpan, editable_host_ops

EditSite = tuple[str, int]


@dataclass(frozen=True, slots=True)
class EditPlan:
    """Which rules of the replay act at which site, with what interval."""

    sites: dict[EditSite, dict[ReplayRule, int]]
    intervals: tuple[int, ...]
    depth: int
    batch_copies: frozenset[EditSite]
    """Sites where a batch goes to the GPU: only copy Edits act there."""

    def rules(self, op: HostOp) -> dict[ReplayRule, int]:
        return self.sites.get(site_of(op), {})

    def pins(self, op: HostOp) -> bool:
        return op.kind == "staged" and "pinned-copy" in self.rules(op)


class TouchedOp(NamedTuple):
    """A HostOp that the Edits may change, or that is beside one."""

    position: int
    """In its step."""
    op: HostOp
    rules: dict[ReplayRule, int]
    """What the Edits do to it, each with its interval."""
    carries: bool
    """It brings a batch to the GPU."""


@dataclass(frozen=True, slots=True)
class SplitStep:
    """One step, split for an EditPlan."""

    parts: tuple[UntouchedSpan | tuple[TouchedOp, ...], ...]
    """UntouchedSpans, and the HostOps between them. The first part holds
    HostOps: what an Edit adds to the beginning of a step is compiled together with it."""
    copies: tuple[HostOp, ...]
    """Copies of batches to the GPU that an Edit changes."""
    pinned: tuple[HostOp, ...]
    """Copies whose source will be pinned."""
    loaders: tuple[HostOp, ...]
    dropping: tuple[tuple[int, HostOp], ...]
    """HostOps before which the loop frees the memory of a batch, with their positions."""


def plan(trace: ReplayTrace, edits: Sequence[Edit]) -> EditPlan:
    """The places that the Edits address."""
    sites: dict[EditSite, dict[ReplayRule, int]] = {}
    for edit in edits:
        rule = replay_rule(edit.kind)
        if isinstance(rule, NotReplayed):
            continue
        for site in _addressed_sites(trace, edit, rule):
            chosen = sites.setdefault(site, {})
            chosen[rule] = max(edit.interval, chosen.get(rule, 1))
    intervals = sorted({interval for chosen in sites.values() for interval in chosen.values() if interval > 1})
    depth = max((edit.depth or 1 for edit in edits if replay_rule(edit.kind) == "copy-ahead"), default=0)
    return EditPlan(sites, tuple(intervals), depth, frozenset(_batch_copies(trace)))


def split(step: RecordedStep, chosen: EditPlan) -> SplitStep:
    """A step's UntouchedSpans, and the HostOps between them."""
    own = tuple(editable_host_ops(step))
    copies = tuple(op for op in own if op.engine == "h2d" and chosen.rules(op))
    pinned = tuple(op for op in own if chosen.pins(op))
    return SplitStep(
        parts=tuple(_parts(step, chosen, bool(copies))),
        copies=copies,
        pinned=pinned,
        loaders=tuple(op for op in own if op.kind == "loader"),
        dropping=tuple(_dropping(step, chosen, {site_of(op) for op in pinned})),
    )


def site_of(op: HostOp) -> EditSite:
    """Where an Edit acts: a copy and the synchronize behind it are one site."""
    return ("pair", op.pair) if op.pair >= 0 else ("wait", op.wait) if op.wait >= 0 else ("call", op.call)


def stall_waits(trace: ReplayTrace, stalls: Collection[str]) -> frozenset[int]:
    """The waits of these Stalls; none for a Stall that the ReplayTrace does not have."""
    return frozenset(wait for name in stalls if name in trace.stalls for wait in trace.stalls[name].waits)


def calls(trace: ReplayTrace, waits: Collection[int]) -> set[int]:
    """The calls behind these waits. A copy takes the synchronize behind it along: it is one call of the user's. The
    synchronize behind a batch's copy goes alone, because that copy has a wait of its own."""
    call_positions: set[int] = set()
    for step in trace.steps:
        batch = {op.pair for op in editable_host_ops(step) if op.engine == "h2d" and op.pair >= 0}
        named = [op for op in editable_host_ops(step) if op.wait in waits and op.wait >= 0]
        pairs = {op.pair for op in named if op.pair >= 0 and (op.engine or op.pair not in batch)}
        call_positions |= {op.call for op in editable_host_ops(step) if op.pair in pairs} | {op.call for op in named}
    return call_positions


# ---------------------------------------------------------------------------------------------------- the places


def _addressed_sites(trace: ReplayTrace, edit: Edit, rule: ReplayRule) -> set[EditSite]:
    """The places of an Edit's Stalls; a copy Edit that names none acts on every pageable or waited-for batch copy."""
    if edit.stalls:
        return _waiting_sites(trace, stall_waits(trace, edit.stalls))
    if rule not in ("pinned-copy", "copy-ahead"):
        return set()
    return _batch_copies(trace)


def _batch_copies(trace: ReplayTrace) -> set[EditSite]:
    return {
        site_of(op) for step in trace.steps for op in editable_host_ops(step) if op.engine == "h2d" and not op.detached
    }


def _waiting_sites(trace: ReplayTrace, waits: Collection[int]) -> set[EditSite]:
    return {site_of(op) for step in trace.steps for op in editable_host_ops(step) if op.wait in waits and op.wait >= 0}


# ------------------------------------------------------------------------------------------------------- the cuts


def _parts(step: RecordedStep, chosen: EditPlan, copies: bool) -> Iterator[UntouchedSpan | tuple[TouchedOp, ...]]:
    """UntouchedSpans end where OpBlocks do: launches merged into one operation never cross that edge."""
    untouched: list[HostOp | OpBlock] = []
    for first, group in _groups(step):
        if first and not any(_touched(before, op, chosen, copies) for before, op in pairwise((None, *group))):
            untouched += group
            continue
        if untouched:
            yield UntouchedSpan(tuple(untouched))
            untouched = []
        yield tuple(
            TouchedOp(position, op, chosen.rules(op), site_of(op) in chosen.batch_copies)
            for position, op in enumerate(group, first)
            if isinstance(op, HostOp)
        )
    if untouched:
        yield UntouchedSpan(tuple(untouched))


def _groups(step: RecordedStep) -> Iterator[tuple[int, Sequence[HostOp | OpBlock]]]:
    """The OpBlocks of a step, and the HostOps between two of them together; each with its position."""
    first, run = 0, list[HostOp | OpBlock]()
    for position, element in enumerate(step):
        if isinstance(element, OpBlock):
            yield first, run
            yield position, (element,)
            first, run = position + 1, []
        else:
            run.append(element)
    yield first, run


def _touched(before: HostOp | OpBlock | None, op: HostOp | OpBlock | None, chosen: EditPlan, copies: bool) -> bool:
    """Whether the Edits may change a HostOp: its own site, what the loader does, or the host time behind either."""
    if not isinstance(op, HostOp):
        return False
    behind = isinstance(before, HostOp) and (before.kind == "loader" or bool(chosen.rules(before)))
    return bool(chosen.rules(op)) or (copies and (behind or op.kind == "loader"))


def _dropping(step: RecordedStep, chosen: EditPlan, sites: Iterable[EditSite]) -> Iterator[tuple[int, HostOp]]:
    """The memory of a batch goes when the loop drops it: right after its copy, or when the next batch takes its
    name."""
    for position, (before, op) in enumerate(pairwise(step), start=1):
        if isinstance(before, OpBlock) or isinstance(op, OpBlock):
            continue
        left = site_of(before) in sites and site_of(op) not in sites
        if before.kind == "loader" or left or chosen.pins(before):
            yield position, op
