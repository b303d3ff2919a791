"""Waits that stay in each batch right beside a read: with them nothing is gained when the read waits.

In: a loop, the reads that would be deferred, and those that cannot be. Out: the wait that stays, or None. Two waits are
beside one another where nothing between them gives the GPU work: whichever comes first waits for all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.outside import words
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import own_nodes
from tracelens.patch.loop.sites import Site, find, reads_in

_NO_WORK = words(
    "item tolist print update append extend write info warning debug error exit format time perf_counter isfinite"
    " isnan isinf get_scale set_postfix set_description add_scalar synchronize"
)
"""Calls that give the GPU no work, by their last name."""


def beside(facts: LoopFacts, kept: Sequence[Site], stays: Sequence[Site]) -> Site | None:
    """The wait that stays beside every one of the reads, the first of them where there are several."""
    staying = [*stays, *_synchronizes(facts)]
    found = [next((other for other in staying if _together(facts, read, other)), None) for read in kept]
    return found[0] if found and all(other is not None for other in found) else None


def _synchronizes(facts: LoopFacts) -> Iterator[Site]:
    inside = set(own_nodes(facts.loop.body))
    for site in find(facts.source):
        if site.kind == "sync" and site.node in inside and not facts.in_rare_branch(site.node):
            yield site


def _together(facts: LoopFacts, read: Site, other: Site) -> bool:
    """Whether both stand in one block of the loop, and nothing from the first to the second gives the GPU work."""
    source = facts.source
    own, theirs = (_in_block(facts, site.statement) for site in (read, other))
    block = source.parent(own)
    if block is not source.parent(theirs) or not isinstance(block, cst.IndentedBlock):
        return False
    body = list(block.body)
    numbers = sorted(next(n for n, node in enumerate(body) if node is one) for one in (own, theirs))
    return all(_gives_no_work(facts, node) for node in body[numbers[0] : numbers[1] + 1])


def _in_block(facts: LoopFacts, statement: cst.CSTNode) -> cst.CSTNode:
    """The line of a small statement; a compound one is its own."""
    line = facts.source.parent(statement)
    return line if isinstance(line, cst.SimpleStatementLine) else statement


def _gives_no_work(facts: LoopFacts, node: cst.CSTNode) -> bool:
    plain = all(not any(isinstance(part, cst.Call) for part in walk(read.tensor)) for read in reads_in(node))
    calls = (part for part in walk(node) if isinstance(part, cst.Call))
    return plain and all(is_pure(facts.names.qualified(call.func)) or _last(call.func) in _NO_WORK for call in calls)


def _last(function: cst.BaseExpression) -> str:
    return function.attr.value if isinstance(function, cst.Attribute) else dotted(function)
