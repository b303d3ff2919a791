"""defer-read: values that are only logged or summed up are kept on the GPU and read several batches at a time.

In: a RecipeRequest. Out: one Proposal per loop. The statements run later, in order and with the same numbers (see
`deferral`); only the moment of output changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from tracelens.messages import joined, say, say_count
from tracelens.model import Declined, Location
from tracelens.patch.code.names import meets, walk
from tracelens.patch.code.outside import OUTPUT
from tracelens.patch.deferral import plain_doubts
from tracelens.patch.deferral.forms import Wish, planned
from tracelens.patch.deferral.plain_plan import PlainPlan
from tracelens.patch.deferral.planning import Deferral, plan
from tracelens.patch.loop import stream_order
from tracelens.patch.loop.facts import LoopFacts, facts_of
from tracelens.patch.loop.loops import (
    DECIDES,
    FEW_BATCHES,
    OF_A_HEAD,
    SIDE_STREAMS,
    Blocked,
    Loop,
    check_framework,
    check_kept,
    check_unpatched,
    rounds_of_a_step,
    scope_of,
    training_loop,
    trains,
)
from tracelens.patch.loop.sites import Site, find
from tracelens.patch.loop.thinned import check_not_thinned
from tracelens.patch.proposal import Found, Proposal, RecipeAnswer, RecipeRequest, Target, by_loop, evidence, matched
from tracelens.patch.recipes import (
    carried_reads,
    host_memory,
    returned_reads,
    same_program,
    step_functions,
    wait_dependents,
    waits_that_stay,
    warnings_seen,
)
from tracelens.patch.recipes.same_program import Reworded
from tracelens.patch.recipes.waits_that_stay import Moving

SEVERAL = 1.5
"""Reads per step, of one place, from which its loop runs within a batch: half of one for a last, shorter batch."""

SEEN_BY_NAME = say("whether anything finds the value by its name, or catches the error of its read")
"""What moves a read to where its name is used, or gives the number another name, does not ask the whole project."""
KEPT_VALUES = (say("only the first read of a list of values waits"), say("nothing to do: the others cost little"))


def propose(request: RecipeRequest) -> RecipeAnswer:
    """What waits in the loops of the file, and what its step functions give to the loops of others."""
    return carried_reads.added(request, _in_loops(request), _propose)


def _in_loops(request: RecipeRequest) -> RecipeAnswer:
    """The answer for the file as it is, where that is proved; else for one in which more waits, which is checked."""
    plain = _moved(request)
    if plain.proposals and not plain.declined and all(one.tier == "safe" for one in plain.proposals):
        return plain
    told: dict[Location, Declined] = {}
    known: dict[Location, Declined] = {}
    for other in same_program.reworded(request):
        answer = _with_steps(other.request, _propose(other.request))
        known |= _without_gain(answer)
        told = {one.location: one for one in answer.declined} | known
        if not other.lines <= _lines(other.request, answer):
            continue
        if (made := _named(request, other, _lines(other.request, answer))) is not None:
            every = (*made, *answer.proposals)
            proposals = (replace(one.as_checked(SEEN_BY_NAME), hoists=(*one.hoists, *other.splices)) for one in every)
            declined = (one for one in answer.declined if one.location.line not in other.new_lines)
            return RecipeAnswer(tuple(proposals), tuple(declined))
    told |= _without_gain(plain)
    return RecipeAnswer(plain.proposals, tuple(told.get(one.location, one) for one in plain.declined))


def _without_gain(answer: RecipeAnswer) -> dict[Location, Declined]:
    """The places that could wait, with nothing to gain by it: true of the file in whatever words."""
    return {one.location: one for one in answer.declined if one.by_hand == waits_that_stay.BY_HAND}


def _named(request: RecipeRequest, other: Reworded, waiting: set[int]) -> list[Proposal] | None:
    """A hunk for the reads of each loop that are made in few batches now; None where nothing is gained by one."""
    found, _ = matched(request, "read")
    out = []
    for loop in dict.fromkeys(one.loop for one in other.rare):
        named = [one for one in other.rare if one.loop is loop]
        nodes = {site.node for one in named for site in one.sites}
        own = [(site, target) for site, target in found if site.node in nodes]
        beside = [(site, target) for site, target in found if site.line in waiting and site.node not in nodes]
        facts, every = facts_of(request.source, loop), [*own, *beside]
        moved = statements([site for site, _ in every])
        if waits_that_stay.nothing_gained(request, facts, found, Moving(every, moved)) is not None:
            return None
        words = ", ".join(f"`{one.name}`" for one in named)
        proposal = Proposal(
            edit="defer-read",
            tier="safe",
            location=request.place(own[0][0].node, own[0][0].function),
            reason=say("{names} keeps the tensor, whose value is read where it is used, in few batches", names=words),
            evidence=evidence([stall for _, target in own for stall in target.stalls]),
            loop_line=request.source.line(loop),
        )
        for one in named:
            if one.assumed:
                proposal = proposal.as_checked(say("`{value}` is taken for a tensor", value=one.assumed))
        out.append(proposal)
    return out


def _lines(request: RecipeRequest, answer: RecipeAnswer) -> set[int]:
    """Where the reads are that would wait."""
    sites = find(request.source)
    return {sites[number].line for one in answer.proposals for number in one.sites}


def _moved(request: RecipeRequest) -> RecipeAnswer:
    """The answer for the file, or for the one in which calls of step functions read what these return."""
    answer = _with_steps(request, _propose(request))
    moved = returned_reads.hoisted(request)
    if moved is None:
        return answer
    waiting = _propose(moved.request)
    lines = {moved.request.source.line(find(moved.request.source)[n].node) for p in waiting.proposals for n in p.sites}
    if not moved.call_lines <= lines:
        return answer
    names = ", ".join(f"`{name}`" for name in sorted(moved.functions))
    note = say("{names} returns the tensor, whose value is read in the loop", names=names)
    places = tuple(Location(request.source.shown, line) for line in sorted(moved.lines))
    proposals = (
        replace(one, hoists=moved.splices, reason=joined("; ", [one.reason, note]), covers=(*one.covers, *places))
        for one in waiting.proposals
    )
    return RecipeAnswer(tuple(proposals), waiting.declined)


def _with_steps(request: RecipeRequest, answer: RecipeAnswer) -> RecipeAnswer:
    """The answer with what step functions read themselves: a read that waits there is declined no more."""
    taken = request.changing | {one.loop_line for one in answer.proposals}
    steps = step_functions.propose(request, taken)
    covered = {(place.path, place.line) for one in steps.proposals for place in one.covers}
    told = {(one.location.path, one.location.line): one for one in steps.declined}
    declined = [
        told.get((one.location.path, one.location.line), one)
        for one in answer.declined
        if (one.location.path, one.location.line) not in covered
    ]
    return RecipeAnswer((*answer.proposals, *steps.proposals), tuple(declined))


def _propose(request: RecipeRequest) -> RecipeAnswer:
    found, declined = matched(request, "read")
    proposals: list[Proposal] = []
    lasting = [(site, target) for site, target in found if _lasts(request, site, target, found, declined)]
    loops = sorted(by_loop(request, lasting, declined, _loop), key=lambda one: request.source.line(one[0]))
    while loops:
        loop, members = loops.pop(0)
        facts = facts_of(request.source, loop)
        members = _frequent(request, facts, members, declined)
        if not members:
            continue
        within = [(inner, more) for inner, more in loops if any(a is loop for a in request.source.ancestors(inner))]
        together = _together(request, facts, members, within)
        if together is not None:
            proposals.append(together)
            loops = [one for one in loops if one not in within]
            continue
        if any(_shares(request, facts, members, inner, more) for inner, more in within):
            by_hand = say("read the values of both loops in one of them")
            blocked = Blocked(within[0][0], say("a training loop inside this one shares its results"), by_hand)
            declined += [request.decline(site.node, blocked) for site, _ in members]
            continue
        kept, deferral = _largest_plan(request, facts, members, declined)
        if deferral is None:
            continue
        try:
            moved = [node for run in deferral.runs for node in run.statements]
            nothing_gained = waits_that_stay.nothing_gained(request, facts, found, Moving(kept, moved))
            if nothing_gained is not None:
                raise nothing_gained
            proposals.append(_proposal(request, facts, deferral, kept))
        except Blocked as blocked:
            declined += [request.decline(site.node, blocked) for site, _ in kept]
    return RecipeAnswer(tuple(proposals), tuple(declined))


def _together(
    request: RecipeRequest, facts: LoopFacts, members: Found, within: list[tuple[Loop, Found]]
) -> Proposal | None:
    """One plan for a loop and for the training loops inside it: their results run later in the order of both."""
    every = [*members, *(one for _, more in within for one in more)]
    try:
        return (
            _proposal(request, facts, plan(facts, statements([site for site, _ in every])), every) if within else None
        )
    except Blocked:
        return None


def _shares(request: RecipeRequest, facts: LoopFacts, members: Found, inner: Loop, more: Found) -> bool:
    """Whether a loop inside would hold back what this one shows, or this one what that one shows."""
    _, deferred = _largest_plan(request, facts_of(request.source, inner), more, [])
    _, around = _largest_plan(request, facts, members, [])
    if deferred is None or around is None:
        return False
    within = set(walk(inner))
    inside = any(node in within for run in around.runs for node in run.statements)
    return inside or any(node in within for node in around.drains) or meets(around.state, deferred.state)


def _lasts(request: RecipeRequest, site: Site, target: Target, found: Found, declined: list[Declined]) -> bool:
    """Whether the loop of a read goes on over batches: after a few rounds within each, one wait stays anyway."""
    try:
        loop = training_loop(request.source, site.node)
    except Blocked:
        return True  # is declined with its own reason
    reads = sum(other is target for _, other in found)
    rounds = sum(stall.calls_per_step for stall in target.stalls) / reads
    if trains(loop) or not SEVERAL < rounds <= request.edit.interval:
        return True
    obstacle = say("its loop makes {rounds:.3g} rounds in each batch, after which the sum is needed", rounds=rounds)
    by_hand = say("add the tensors up, and read their sum where it is logged, every N batches")
    declined.append(request.decline(site.node, Blocked(loop, obstacle, by_hand)))
    return False


def _loop(request: RecipeRequest, site: Site) -> Loop:
    check_kept(site.source, site.statement)
    loop = loop_of_read(request, site.node, own_streams=True)
    if isinstance(site.statement, cst.Return):
        raise Blocked(None, say("the value is returned"), say("return the tensor and read it where it is logged"))
    if not isinstance(site.statement, cst.BaseSmallStatement):
        raise Blocked(None, *(DECIDES if isinstance(site.statement, (cst.If, cst.While)) else OF_A_HEAD))
    if waits_that_stay.is_of_kept_values(facts_of(request.source, loop), site):
        raise Blocked(None, *KEPT_VALUES)
    return loop


def loop_of_read(request: RecipeRequest, node: cst.CSTNode, own_streams: bool = False) -> Loop:
    """The training loop around a read, where its file lets reads wait at all; raises `Blocked`.

    `own_streams`: the change keeps the order of the streams that the loop has itself.
    """
    check_framework(request.names, reads=True)
    loop = training_loop(request.source, node)
    scope_of(request.source, loop)
    check_unpatched(loop, request.names)
    check_not_thinned(request.source, node)
    for sign, meaning in wait_dependents.signs(request.source, "read"):
        if meaning == SIDE_STREAMS and own_streams:
            stream_order.check(facts_of(request.source, loop))
            continue
        by_hand = say(
            "make the stream or the copy safe by an event (wait_stream, record_stream), then read every N batches"
        )
        raise Blocked(
            sign, say("the file {meaning}, and this read may be what keeps it safe", meaning=meaning), by_hand
        )
    return loop


def _largest_plan(
    request: RecipeRequest, facts: LoopFacts, members: Found, declined: list[Declined]
) -> tuple[Found, Deferral | None]:
    """A plan for all sites; where that fails, for as many as can wait together, rare ones last."""
    try:
        return members, plan(facts, statements([site for site, _ in members]))
    except Blocked:
        pass
    kept: Found = []
    best: Deferral | None = None
    for site, target in sorted(members, key=lambda one: waits_that_stay.seldom(facts, *one)):
        try:
            best = plan(facts, statements([*(one for one, _ in kept), site]))
            kept.append((site, target))
        except Blocked as blocked:
            rare = Blocked(None, *FEW_BATCHES) if waits_that_stay.seldom(facts, site, target) else blocked
            declined.append(request.decline(site.node, rare))
    return [one for one in members if one in kept], best


def _frequent(request: RecipeRequest, facts: LoopFacts, members: Found, declined: list[Declined]) -> Found:
    """The reads without those that were recorded in few batches, below a condition that says so."""
    out: Found = []
    for site, target in members:
        if target.stalls and waits_that_stay.seldom(facts, site, target):
            declined.append(request.decline(site.node, Blocked(None, *FEW_BATCHES)))
        else:
            out.append((site, target))
    return out


def statements(sites: Sequence[Site]) -> list[cst.CSTNode]:
    """The statements that make the reads, each once."""
    return list({id(site.statement): site.statement for site in sites}.values())


def _proposal(request: RecipeRequest, facts: LoopFacts, deferral: Deferral, members: Found) -> Proposal:
    first = members[0][0]
    reads = _plain(request, facts, deferral, members)
    chosen = deferral if reads is None else reads.deferral
    if reads is None and rounds_of_a_step(request.source, facts.loop):
        told = say("helpers would be made anew for its few rounds in each step of the loop around it")
        raise Blocked(facts.loop, told, say("add the tensors up, and read their sum where it is logged"))
    if (
        reads is None
        and chosen.places.measured
        and not (request.edit.interval > 1 or request.source.line(facts.loop) in request.changing)
    ):
        told = say("the loop measures times, which would lack the wait that nothing makes any more")
        raise Blocked(facts.loop, told, say("time N batches as a whole"))
    values = say("{values} read in each batch and only logged or summed", values=counted(len(members)))
    words: list[str] = [say("{values}: read {when} instead", values=values, when=_when(request, reads))]
    if OUTPUT in chosen.state and not chosen.unproved:
        words.append(say("the same lines are printed in the same order, later"))
    words += chosen.notes
    every = find(request.source)
    proposal = Proposal(
        edit="defer-read",
        tier="safe",
        location=request.place(first.node, first.function),
        reason=joined("; ", words),
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        loop_line=request.source.line(deferral.facts.loop),
        sites=tuple(_number(every, site) for site, _ in members),
        needs_runtime=reads is None,
        plain=reads is not None,
    )
    seen = warnings_seen.doubt(request, (site for site, _ in members))
    memory = host_memory.doubt_of_waits(request.source)
    for unproved in (*plain_doubts.doubts(chosen, reads, request.edit.interval), *filter(None, [seen, memory])):
        proposal = proposal.as_checked(unproved)
    return proposal


def _plain(request: RecipeRequest, facts: LoopFacts, deferral: Deferral, members: Found) -> PlainPlan | None:
    """How the reads wait without a helper, where nothing else in their loop needs one.

    Where helpers would not make it proved, the form is that of a patch with such hunks: the others only tell of it.
    """
    line, often = request.source.line(facts.loop), request.edit.interval > 1
    if line in request.helped:
        return None
    seeds = statements([site for site, _ in members])
    unproved = request.checked or bool(deferral.unproved)
    return planned(facts, seeds, Wish(often or line in request.changing, often, unproved, request.lossy))[1]


def _when(request: RecipeRequest, reads: PlainPlan | None) -> str:
    if reads is not None and not reads.reads_every_n:
        return (
            say("where the results are shown, and after the loop") if reads.deferral.drains else say("after the loop")
        )
    if request.edit.interval <= 1:
        return say("as soon as the GPU has it")
    if reads is not None and reads.below_conditions:
        return say("every {interval} times", interval=request.edit.interval)
    return say("every {interval} batches", interval=request.edit.interval)


def counted(values: int) -> str:
    return say_count("{count} value", "{count} values", values)


def _number(sites: Sequence[Site], wanted: Site) -> int:
    return next(number for number, site in enumerate(sites) if site.node is wanted.node)
