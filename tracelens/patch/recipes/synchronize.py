"""event-sync and interval-sync: an explicit synchronize in each batch waits every N batches, or for an event.

In: a Request. Out: one Proposal per loop. A synchronize stays wherever something else in the file may rely on it.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.facts import facts_of
from tracelens.patch.loops import Blocked, check_framework, check_scope, clock_reads, is_rare, side_work, training_loop
from tracelens.patch.proposal import Answer, Proposal, Request, Target, evidence, matched
from tracelens.patch.sites import Site, find

Found = list[tuple[Site, Target]]


def propose(request: Request) -> Answer:
    found, declined = matched(request, "sync")
    loops: dict[int, tuple[cst.For, Found]] = {}
    for site, target in found:
        try:
            loop = _loop(request, site)
        except Blocked as blocked:
            declined.append(request.decline(site.node, blocked))
            continue
        loops.setdefault(id(loop), (loop, []))[1].append((site, target))
    return Answer(tuple(_proposal(request, loop, members) for loop, members in loops.values()), tuple(declined))


def _loop(request: Request, site: Site) -> cst.For:
    """The loop whose batches the call waits for; raises `Blocked` where the call has to stay."""
    source, names = site.source, request.names
    if source.kept_by_comment(site.statement):
        raise Blocked(None, "it is marked `# tracelens: keep`", "remove the comment to have it patched")
    check_framework(names)
    loop = training_loop(source, site.node)
    facts = facts_of(source, loop, names)
    check_scope(facts.scope)
    if not isinstance(site.statement, cst.Expr):
        raise Blocked(None, "it is a part of a larger statement", "synchronize every N batches")
    for ancestor in source.ancestors(site.node):
        if ancestor is loop:
            break
        if isinstance(ancestor, cst.If) and is_rare(ancestor.test, facts.varying):
            raise Blocked(ancestor, "it is made only in some batches already", "nothing to do")
    clocks = clock_reads(loop, names)
    if clocks:
        why = "the loop reads the clock, and the synchronize makes what it measures true"
        raise Blocked(clocks[0], why, "time every N batches as a whole, or with pairs of CUDA events")
    side = side_work(names, source.module)
    if side is not None:
        raise Blocked(side[0], f"the file {side[1]}", "keep it unless you can show that nothing relies on it")
    return loop


def _proposal(request: Request, loop: cst.For, members: Found) -> Proposal:
    first = members[0][0]
    interval = request.edit.interval
    if request.edit.kind == "interval-sync":
        reason = f"waits every {interval} batches and after the loop, not in each batch"
    else:
        often = f"waited for every {interval} batches" if interval > 1 else "waited for after the loop"
        reason = f"an event marks the batch and is {often}; the host goes on"
    nodes = [site.node for site, _ in members]
    every = find(request.source)
    return Proposal(
        edit=request.edit.kind,
        tier="safe",
        location=request.place(first.node, first.function),
        reason=reason,
        evidence=evidence([stall for _, target in members for stall in target.stalls]),
        loop_line=request.source.line(loop),
        sites=tuple(n for n, site in enumerate(every) if site.node in nodes),
        needs_runtime=True,
    )
