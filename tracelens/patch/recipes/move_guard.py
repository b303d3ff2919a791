"""move-guard (unsafe): a guard against not-a-number looks every N batches, together with the values that wait.

In: a RecipeRequest. Out: one Proposal per loop. The guard runs later with the statements that it stands between, so
that what only logs below it can wait too; up to N-1 further updates are made before it ends the training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.messages import joined, say, say_count
from tracelens.model import Declined, Location
from tracelens.patch.code.names import rebound, touched
from tracelens.patch.deferral.planning import Deferral, plan
from tracelens.patch.loop import guards
from tracelens.patch.loop.facts import LoopFacts, facts_of
from tracelens.patch.loop.guards import GUARD_BY_HAND, Guard
from tracelens.patch.loop.loops import Blocked, Loop, check_kept, innermost_loop, training_loop
from tracelens.patch.loop.sites import Site, find
from tracelens.patch.proposal import Found, Proposal, RecipeAnswer, RecipeRequest, Target, evidence, matched
from tracelens.patch.recipes import defer_read


def propose(request: RecipeRequest) -> RecipeAnswer:
    proposals: list[Proposal] = []
    declined: list[Declined] = []
    loops: dict[int, tuple[Loop, list[Guard]]] = {}
    for guard in guards.find(request.source):
        try:
            loop = training_loop(request.source, guard.node)
        except Blocked:
            continue  # in a helper, or in no loop: not a place of this kind
        loops.setdefault(id(loop), (loop, []))[1].append(guard)
    for loop, found in loops.values():
        asked = _waited_for(request, loop, found)
        if asked is None:
            continue
        try:
            proposals.append(_proposal(request, loop, found))
        except Blocked as blocked:
            declined.append(request.decline(asked.node, blocked))
    return RecipeAnswer(tuple(proposals), tuple(declined))


def _waited_for(request: RecipeRequest, loop: Loop, found: Sequence[Guard]) -> Guard | None:
    """The first guard of the loop for which the recording saw a wait: in its own test, or where its value is read."""
    reads = {id(site.node) for site, _ in _reads(request, loop)}
    for guard in found:
        if any(request.source.covers(guard.node.test, target.line) for target in request.targets):
            return guard
        if any(id(site.node) in reads for site in _fed_by(request, loop, guard)):
            return guard
    return None


def _reads(request: RecipeRequest, loop: Loop) -> Found:
    """The recorded reads of a loop that are whole statements."""
    found, _ = matched(request, "read")
    out = []
    for site, target in found:
        small = isinstance(site.statement, cst.BaseSmallStatement) and not isinstance(site.statement, cst.Return)
        if small and loop in request.source.ancestors(site.node) and not request.source.kept_by_comment(site.statement):
            out.append((site, target))
    return out


def _fed_by(request: RecipeRequest, loop: Loop, guard: Guard) -> list[Site]:
    """The reads whose values the guard looks at, through however many names."""
    facts, names = facts_of(request.source, loop), request.names
    wanted, size = set(touched(guard.node.test, names)), -1
    while size != len(wanted):
        size = len(wanted)
        for leaf in facts.leaves:
            if isinstance(leaf, (cst.Assign, cst.AugAssign, cst.AnnAssign)) and rebound(leaf) & wanted:
                wanted |= touched(leaf, names) if any(True for _ in _sites_in(request, leaf)) else set()
    return [
        site
        for leaf in facts.leaves
        if isinstance(leaf, cst.BaseSmallStatement) and rebound(leaf) & wanted
        for site in _sites_in(request, leaf)
    ]


def _sites_in(request: RecipeRequest, statement: cst.CSTNode) -> Iterable[Site]:
    return (site for site in find(request.source) if site.kind == "read" and site.statement is statement)


@dataclass(frozen=True)
class _Plan:
    deferral: Deferral
    members: Found
    """Reads that wait with the guards."""


def _proposal(request: RecipeRequest, loop: Loop, found: Sequence[Guard]) -> Proposal:
    movable = [guard for guard in found if guard.ending and not request.source.kept_by_comment(guard.node)]
    if not movable:
        _refuse(request, found)
    defer_read.loop_of_read(request, movable[0].node)
    if any(guard.breaks for guard in movable) and loop.orelse is not None:
        raise Blocked(loop, say("the loop has an `else`, which a `break` skips"), GUARD_BY_HAND)
    for guard in movable:
        if guard.breaks and innermost_loop(request.source, guard.node) is not loop:
            raise Blocked(guard.node, say("its `break` ends an inner loop"), GUARD_BY_HAND)
    facts = replace(facts_of(request.source, loop), guards=frozenset(guard.node for guard in movable))
    planned = _planned(request, loop, facts, movable)
    own = _own(request, facts, planned, movable)
    if not own and all(any(True for _ in _fed_by(request, loop, guard)) for guard in movable):
        raise Blocked(None, say("what it looks at is read in each batch all the same"), GUARD_BY_HAND)
    reason = _reason(request, movable, planned, own)
    by_hand = say("apply with --unsafe, or check every N batches on a tensor kept on the GPU")
    request.check_unsafe(reason, by_hand=by_hand)
    every, known = find(request.source), guards.find(request.source)
    first = movable[0].node
    return Proposal(
        edit="move-guard",
        tier="unsafe",
        location=request.place(first, request.source.function_around(first)),
        reason=reason,
        evidence=evidence([stall for target in _targets(request, movable, own) for stall in target.stalls]),
        loop_line=request.source.line(loop),
        sites=tuple(number for number, site in enumerate(every) if any(site.node is one.node for one, _ in own)),
        guards=tuple(number for number, guard in enumerate(known) if guard in movable),
        covers=_covered(request, movable, own),
        needs_runtime=True,
    )


def _refuse(request: RecipeRequest, found: Sequence[Guard]) -> None:
    check_kept(request.source, found[0].node)
    raise Blocked(None, found[0].other, GUARD_BY_HAND)


def _planned(request: RecipeRequest, loop: Loop, facts: LoopFacts, movable: Sequence[Guard]) -> _Plan:
    """A plan for the guards with the reads that feed them, and with as many other reads of the loop as can wait."""
    reads = _reads(request, loop)
    fed = {id(site.node) for guard in movable for site in _fed_by(request, loop, guard)}
    members = [one for one in reads if id(one[0].node) in fed]
    nodes: list[cst.CSTNode] = [guard.node for guard in movable]
    try:
        return _Plan(plan(facts, _seeds(reads, nodes)), reads)
    except Blocked:
        best = plan(facts, _seeds(members, nodes))
    for one in reads:
        if one not in members:
            try:
                best = plan(facts, _seeds([*members, one], nodes))
            except Blocked:
                continue
            members.append(one)
    return _Plan(best, members)


def _seeds(members: Found, nodes: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    return [*nodes, *defer_read.statements([site for site, _ in members])]


def _own(request: RecipeRequest, facts: LoopFacts, planned: _Plan, movable: Sequence[Guard]) -> Found:
    """The reads of this hunk: those that only wait because the guard does. All of them, if these alone cannot."""
    safe = defer_read.propose(replace(request, edit=replace(request.edit, kind="defer-read")))
    line, every = request.source.line(facts.loop), find(request.source)
    others = {id(every[n].node) for one in safe.proposals if one.loop_line == line for n in one.sites}
    own = [one for one in planned.members if id(one[0].node) not in others]
    if len(own) + len(others) > len(planned.members):
        raise Blocked(None, say("it cannot wait together with the other values of the loop"), GUARD_BY_HAND)
    try:
        plan(facts, _seeds(own, [guard.node for guard in movable]))
    except Blocked:
        return planned.members
    return own


def _reason(request: RecipeRequest, movable: Sequence[Guard], planned: _Plan, own: Found) -> str:
    n = request.edit.interval
    endings = list(dict.fromkeys(guard.ending for guard in movable))
    ending: str = joined(" or ", endings)
    if any(guard.breaks for guard in movable):
        ending = say("{ending}, whose names then hold a later batch", ending=ending)
    said = [
        say(
            "the guard looks every {n} batches, so up to {more} further updates are made before it {ending}",
            n=n,
            more=n - 1,
            ending=ending,
        ),
        say("what the loop saves under a name that says so, it saves after the guard has looked"),
    ]
    if own:
        said.append(say_count("{count} value is read with it", "{count} values are read with it", len(own)))
    return joined("; ", [*said, *planned.deferral.notes])


def _targets(request: RecipeRequest, movable: Sequence[Guard], own: Found) -> list[Target]:
    tested = [t for t in request.targets if any(request.source.covers(one.node.test, t.line) for one in movable)]
    return [*tested, *(target for _, target in own)]


def _covered(request: RecipeRequest, movable: Sequence[Guard], own: Found) -> tuple[Location, ...]:
    lines = {request.source.line(site.node) for site, _ in own}
    lines |= {target.line for target in _targets(request, movable, own) if target.line is not None}
    return tuple(Location(request.source.shown, line) for line in sorted(lines))
