"""event-sync and interval-sync: an explicit synchronize in each batch waits every N batches, or for an event.

In: a RecipeRequest. Out: one Proposal per loop. A synchronize stays wherever something else in the file may rely on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import libcst as cst

from tracelens.messages import joined, say
from tracelens.patch.code.names import FileNames, dotted, walk
from tracelens.patch.deferral import plain_torch
from tracelens.patch.deferral.planning import Deferral, plan
from tracelens.patch.loop import deciding_clocks, stream_order, timing
from tracelens.patch.loop.facts import LoopFacts, facts_of
from tracelens.patch.loop.loops import (
    SIDE_STREAMS,
    Blocked,
    Loop,
    check_framework,
    check_kept,
    check_scope,
    check_unpatched,
    head,
    training_loop,
)
from tracelens.patch.loop.sites import Site, find, statement_of
from tracelens.patch.loop.timing import Timing
from tracelens.patch.proposal import (
    Found,
    Proposal,
    RecipeAnswer,
    RecipeRequest,
    RuntimeCall,
    by_loop,
    evidence,
    matched,
)
from tracelens.patch.recipes import host_memory, wait_dependents


def propose(request: RecipeRequest) -> RecipeAnswer:
    found, declined = matched(request, "sync")
    loops = by_loop(request, found, declined, _loop)
    return RecipeAnswer(tuple(_proposal(request, loop, members) for loop, members in loops), tuple(declined))


def _loop(request: RecipeRequest, site: Site) -> Loop:
    """The loop whose batches the call waits for; raises `Blocked` where the call has to stay."""
    source, names = site.source, request.names
    check_kept(source, site.statement)
    check_framework(names)
    loop = training_loop(source, site.node)
    check_unpatched(loop, names)
    facts = facts_of(source, loop)
    check_scope(facts.scope)
    if not isinstance(site.statement, cst.Expr):
        raise Blocked(None, say("it is a part of a larger statement"), say("synchronize every N batches"))
    if facts.in_rare_branch(site.node):
        raise Blocked(site.statement, say("it is made only in some batches already"), say("nothing to do"))
    timed(facts, ())
    for sign, meaning in wait_dependents.signs(source, "sync"):
        if meaning == SIDE_STREAMS:
            stream_order.check(facts)
            continue
        raise Blocked(
            sign,
            say("the file {meaning}", meaning=meaning),
            say("keep it unless you can show that nothing relies on it"),
        )
    return loop


def timed(facts: LoopFacts, reads: Sequence[cst.CSTNode]) -> tuple[Deferral | None, Timing]:
    """How the times that the loop measures are known later, with the statements in `reads`. Raises `Blocked`."""
    found = timing.time_measurements(facts)
    if not found.spans:
        return (plan(facts, reads) if reads else None), found
    measuring = replace(facts, spans=frozenset(found.spans))
    statements = [statement_of(facts.source, span) for span in found.spans]
    for statement in statements:
        if not isinstance(statement, cst.BaseSmallStatement):
            raise Blocked(
                statement, say("the time decides what the same batch does next"), say("look at it every N batches")
            )
    every = {id(statement): statement for statement in (*reads, *statements)}
    return plan(measuring, list(every.values())), found


def _proposal(request: RecipeRequest, loop: Loop, members: Found) -> Proposal:
    first = members[0][0]
    interval = request.edit.interval
    if request.edit.kind == "interval-sync":
        reason = say("waits every {interval} batches and after the loop, not in each batch", interval=interval)
    else:
        often = (
            say("waited for every {interval} batches", interval=interval)
            if interval > 1
            else say("waited for after the loop")
        )
        reason = say("an event marks the batch and is {often}; the host goes on", often=often)
    reasons: list[str] = [reason]
    if timing.time_measurements(facts_of(request.source, loop)).spans:
        reasons.append(
            say("times between clock reads are measured by events, so they are the GPU's alone and known later")
        )
    timer = _own_iterator(loop, request.names)
    if timer:
        told = say(
            "times that `{timer}(…)` may measure between the batches no longer include the wait for the GPU",
            timer=timer,
        )
        reasons.append(told)
    nodes = [site.node for site, _ in members]
    every = find(request.source)
    replaced_by: RuntimeCall = "synchronize" if request.edit.kind == "interval-sync" else "record"
    proposal = Proposal(
        edit=request.edit.kind,
        tier="safe",
        location=request.place(first.node, first.function),
        reason=joined("; ", reasons),
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        loop_line=request.source.line(loop),
        sites=tuple(n for n, site in enumerate(every) if site.node in nodes),
        replaced_by=replaced_by,
        needs_runtime=True,
        plain=_is_plain(facts_of(request.source, loop), nodes, replaced_by, interval),
    )
    facts = facts_of(request.source, loop)
    deferral, found = timed(facts, ())
    doubts = [deferral.unproved if deferral is not None else "", host_memory.doubt_of_waits(request.source)]
    if found.spans and (line := deciding_clocks.later(facts)) is not None:
        doubts.append(say("a time that it measures decides in line {line}, and may be another", line=line))
    for unproved in filter(None, doubts):
        proposal = proposal.as_checked(unproved)
    return proposal


def _is_plain(facts: LoopFacts, nodes: Sequence[cst.CSTNode], replaced_by: RuntimeCall, interval: int) -> bool:
    """Whether lines of torch do it where values of the same loop wait, too."""
    if len(nodes) != 1 or timing.time_measurements(facts).spans:
        return False
    call = cst.ensure_type(nodes[0], cst.Call)
    return (
        plain_torch.lines_for(facts, call, replaced_by, interval if interval > 1 else None, lambda name: name)
        is not None
    )


def merged(proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
    """An event and a wait every N batches at one place are one hunk: an event, waited for every N batches."""
    out: list[Proposal] = []
    for proposal in proposals:
        twin = next((one for one in out if _is_twin(one, proposal)), None)
        if twin is None:
            out.append(proposal)
            continue
        event, wait = (twin, proposal) if twin.replaced_by == "record" else (proposal, twin)
        both = replace(event, reason=say("an event marks the batch; the host {reason}", reason=wait.reason))
        out[out.index(twin)] = both.as_checked(wait.unproved) if wait.unproved else both
    return tuple(out)


def _is_twin(one: Proposal, other: Proposal) -> bool:
    replaces = one.replaced_by is not None and other.replaced_by is not None
    return replaces and one.edit != other.edit and bool(one.sites) and one.sites == other.sites


def _own_iterator(loop: Loop, names: FileNames) -> str:
    """The method that the loop runs over, such as `metric_logger.log_every`: it sees when each batch is asked for."""
    for node in walk(head(loop)):
        called = dotted(node.func) if isinstance(node, cst.Call) else ""
        if "." in called and not names.is_library(called.partition(".")[0]):
            return called
    return ""
