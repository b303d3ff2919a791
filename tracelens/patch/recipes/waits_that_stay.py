"""Waits that stay in each batch right beside a read: with them nothing is gained when the read waits.

In: a loop, the reads that would be deferred, and those that cannot be. Out: the wait that stays, or None. Two waits are
beside one another where nothing between them gives the GPU work: whichever comes first waits for all of it. Beside a
wait that is made many times in each batch one more is no matter, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.patch.code.names import dotted, of_kinds, rebound, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import own_nodes, trains
from tracelens.patch.loop.sites import Site, find, read_of, reads_in

_NO_WORK = words(
    "item tolist print update append extend write info warning debug error exit format time perf_counter isfinite"
    " isnan isinf get_scale set_postfix set_description add_scalar synchronize"
)
"""Calls that give the GPU no work, by their last name."""
_CONDITIONS = (cst.If, cst.IfExp, cst.Try, cst.BooleanOperation, cst.Lambda, cst.CompFor)


def beside(facts: LoopFacts, kept: Sequence[Site], stays: Sequence[Site]) -> Site | None:
    """The wait that stays beside every one of the reads, the first of them where there are several."""
    staying = [*stays, *_synchronizes(facts)]
    found = [next((other for other in staying if _together(facts, read, other)), None) for read in kept]
    return found[0] if found and all(other is not None for other in found) else None


def repeated(facts: LoopFacts, stays: Sequence[Site]) -> Site | None:
    """The wait that stays in each round of a loop within the batch, in this loop or in a function that it calls."""
    return next((site for site in stays if _in_rounds(facts, site)), None)


def in_functions(facts: LoopFacts) -> Iterator[Site]:
    """Tensors that other functions of the file read, each by itself."""
    inside = set(own_nodes(facts.scope))
    for site in find(facts.source):
        read = read_of(site.node)
        if site.kind == "read" and site.node not in inside and read is not None and read.kind in ("item", "tolist"):
            yield site


def _in_rounds(facts: LoopFacts, site: Site) -> bool:
    function, rounds = _way_up(facts, site.node)
    if function is None:
        return rounds
    name = function.name.value
    named = [one for one in of_kinds(facts.source.module, (cst.FunctionDef,)) if _name(one) == name]
    calls = (call for call in own_nodes(facts.loop.body) if isinstance(call, cst.Call) and _last(call.func) == name)
    certain = (call for call in calls if _is_certain(facts, call) and _is_certain(facts, site.node))
    return len(named) == 1 and any(rounds or _way_up(facts, call)[1] for call in certain)


def _way_up(facts: LoopFacts, node: cst.CSTNode) -> tuple[cst.FunctionDef | None, bool]:
    """The function around a place where that is not the loop's, and whether the place is in a loop within the batch."""
    below, rounds = node, False
    for ancestor in facts.source.ancestors(node):
        if ancestor is facts.loop:
            return None, rounds and _is_certain(facts, node)
        if isinstance(ancestor, cst.FunctionDef):
            return ancestor, rounds and _is_certain(facts, node)
        if isinstance(ancestor, (cst.For, cst.While)) and below is ancestor.body:
            rounds = rounds or isinstance(ancestor, cst.While) or isinstance(ancestor.iter, cst.Call)
        below = ancestor
    return None, False


def _is_certain(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether each batch comes by a place, up to the loop or the function around it: no condition is in between.

    `if p.grad is not None:` is none, which holds of most. A loop over a list may have no rounds, as one of callbacks.
    """
    for ancestor in facts.source.ancestors(node):
        if ancestor is facts.loop or isinstance(ancestor, cst.FunctionDef):
            return True
        if isinstance(ancestor, _CONDITIONS) and not _asks_for_none(ancestor):
            return False
        if isinstance(ancestor, cst.For) and not isinstance(ancestor.iter, cst.Call):
            return False
    return False


def _asks_for_none(node: cst.CSTNode) -> bool:
    test = node.test if isinstance(node, cst.If) else None
    part = test.comparisons[0] if isinstance(test, cst.Comparison) else None
    return part is not None and isinstance(part.operator, cst.IsNot) and dotted(part.comparator) == "None"


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
    places = [next(n for n, node in enumerate(body) if node is one) for one in (own, theirs)]
    between, last = body[min(places) : max(places)], body[max(places)]
    behind = read if last is own else other
    return all(_gives_no_work(facts, node) for node in between) and _gives_no_work(facts, last, until=behind.node)


def _in_block(facts: LoopFacts, statement: cst.CSTNode) -> cst.CSTNode:
    """The line of a small statement; a compound one is its own."""
    line = facts.source.parent(statement)
    return line if isinstance(line, cst.SimpleStatementLine) else statement


def _gives_no_work(facts: LoopFacts, node: cst.CSTNode, until: cst.CSTNode | None = None) -> bool:
    """`until`: a read in the statement, before which what it is an argument of is not called yet."""
    end = facts.source.span(until)[1] if until is not None else None
    reads = (read for read in reads_in(node) if end is None or facts.source.span(read.node)[1] <= end)
    plain = all(not any(isinstance(part, cst.Call) for part in walk(read.tensor)) for read in reads)
    calls = (part for part in walk(node) if isinstance(part, cst.Call))
    before = (call for call in calls if end is None or facts.source.span(call)[1] <= end)
    return plain and all(is_pure(facts.names.qualified(call.func)) or _last(call.func) in _NO_WORK for call in before)


def _name(node: cst.CSTNode) -> str:
    return node.name.value if isinstance(node, cst.FunctionDef) else ""


def _last(function: cst.BaseExpression) -> str:
    return function.attr.value if isinstance(function, cst.Attribute) else dotted(function)


def is_of_kept_values(facts: LoopFacts, site: Site) -> bool:
    """Whether a read is one of many of a list that a loop has filled: only the first of them waits.

    Either behind that loop, or in it where the list is emptied then.
    """
    read = read_of(site.node)
    loop = next((one for one in facts.source.ancestors(site.node) if isinstance(one, cst.For)), None)
    if read is None or loop is None or not isinstance(loop.iter, cst.Name) or trains(loop):
        return False
    name, block = loop.iter.value, facts.source.parent(loop)
    own = isinstance(read.tensor, cst.Name) and read.tensor.value in rebound(loop)
    behind = block.body[block.body.index(loop) + 1 :] if isinstance(block, cst.IndentedBlock) else ()
    emptied = any(facts.source.code(one).strip() == f"{name}.clear()" for one in behind[:1])
    filled = list(value_types.values_of(name, facts))
    lists = bool(filled) and all(isinstance(one, (cst.List, cst.ListComp)) for one in filled)
    return own and lists and (loop is facts.loop or emptied)
