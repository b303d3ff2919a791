"""Reads that get a name and are shown elsewhere: `value = loss.item()`, and `print(value)` every hundred batches.

In: a RecipeRequest. Out: `NamedRead` values: the name keeps the tensor, and each place that uses it reads it there:
`value = loss.detach().clone()`, `print(value.item())`. That is the same program, in which nothing moves but the wait.
Where all such places are met in few batches, that is all there is to do. The others are reads as any other, which may
wait with the line that shows them: no name is shared between two batches then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import value_types
from tracelens.patch.deferral.arrays import may_be_array
from tracelens.patch.deferral.own_copies import kept_tensor
from tracelens.patch.loop.clock_spans import clock_spans
from tracelens.patch.loop.facts import LoopFacts, facts_of
from tracelens.patch.loop.loops import Blocked, Loop, scope_of, training_loop
from tracelens.patch.loop.name_webs import web
from tracelens.patch.loop.sites import Site, find, read_of
from tracelens.patch.proposal import RecipeRequest


@dataclass(frozen=True)
class NamedRead:
    """One variable: the reads that give it its value, and the places that use it."""

    name: str
    loop: Loop
    sites: tuple[Site, ...]
    uses: tuple[cst.Name, ...]
    rare: bool
    """Each use is met in few batches, or after the loop."""
    assumed: str
    """What is taken for a tensor; empty where all of it is known to be one."""

    def splices(self, source: SourceFile) -> Iterator[Splice]:
        for site in self.sites:
            read = read_of(site.node)
            assert read is not None
            facts = facts_of(source, self.loop)
            yield Splice(*source.outer_span(read.node), kept_tensor(facts, read.tensor))
        for use in self.uses:
            end = source.span(use)[1]
            yield Splice(end, end, ".item()")

    def use_lines(self, source: SourceFile) -> frozenset[int]:
        return frozenset(source.line(use) for use in self.uses)


def named_reads(request: RecipeRequest) -> tuple[NamedRead, ...]:
    """The reads of a file that can be made where their names are used."""
    source = request.source
    wanted = {target.line for target in request.targets}
    sites = [site for site in find(source) if site.kind == "read" and site.line in wanted]
    bindings = {binding: site for site in sites if (binding := bound_name(site)) is not None and _is_whole(site)}
    out: list[NamedRead] = []
    done: set[cst.Name] = set()
    for binding, site in bindings.items():
        if binding in done:
            continue
        found = _named(source, binding, site, bindings)
        if found is not None:
            out.append(found)
            done |= {one for one in bindings if bindings[one] in found.sites}
    return tuple(out)


def bound_name(site: Site) -> cst.Name | None:
    """The name that a statement gives to what it reads."""
    small = site.statement
    target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
    return target if isinstance(target, cst.Name) else None


def loop_and_places(source: SourceFile, site: Site, binding: cst.Name) -> tuple[Loop, tuple[cst.Name, ...]] | None:
    """The training loop around a read, and the places that mean the variable that it gives its value."""
    try:
        loop = training_loop(source, site.node)
        places = web(source, scope_of(source, site.node), binding)
    except Blocked:
        return None
    return None if places is None else (loop, places)


def _is_whole(site: Site) -> bool:
    """Whether the value of the statement is the read and nothing else: `loss.item()`."""
    read = read_of(site.node)
    small = site.statement
    return read is not None and read.kind == "item" and isinstance(small, cst.Assign) and small.value is read.node


def _named(source: SourceFile, binding: cst.Name, site: Site, bindings: Mapping[cst.Name, Site]) -> NamedRead | None:
    known = loop_and_places(source, site, binding)
    if known is None or source.kept_by_comment(site.statement):
        return None
    loop, places = known
    facts = facts_of(source, loop)
    sites = tuple(bindings[one] for one in places if one in bindings)
    uses = tuple(one for one in places if one not in bindings)
    inside = frozenset(walk(loop))
    seldom = all(facts.in_rare_branch(each.node) for each in sites)  # as it is
    within = all(each.node in inside for each in sites)
    if seldom or not uses or not within or not all(_may_read(facts, one) for one in uses):
        return None
    rare = all(use not in inside or facts.in_rare_branch(use) for use in uses)
    if not rare and (any(use not in inside for use in uses) or _is_together(facts, binding, uses)):
        return None
    tensors = [read.tensor for each in sites if (read := read_of(each.node)) is not None]
    if any(may_be_array(tensor, facts) for tensor in tensors) or _passes_clock(facts, sites, uses):
        return None
    assumed = next((source.code(one) for one in tensors if not value_types.is_tensor(one, facts)), "")
    return NamedRead(binding.value, loop, sites, uses, rare, assumed)


def _passes_clock(facts: LoopFacts, sites: tuple[Site, ...], uses: tuple[cst.Name, ...]) -> bool:
    """Whether a span that the loop measures has the read in it, and not the places that use the value."""
    spans = clock_spans(facts.source, facts.loop)
    return any(spans.loses(spans.start(site.node), map(spans.start, uses)) for site in sites)


def _may_read(facts: LoopFacts, use: cst.Name) -> bool:
    """Whether the value can be read at a place: once in each batch, or behind the loop, and nothing is stored there."""
    source = facts.source
    inside = any(ancestor is facts.loop for ancestor in source.ancestors(use))
    behind = source.span(use)[0] > source.span(facts.loop)[1]
    return (inside or behind) and not _is_stored(source, use) and not (inside and _in_inner_loop(facts, use))


def _is_stored(source: SourceFile, name: cst.Name) -> bool:
    """Whether a place binds the name, or adds to it: its value is no read then."""
    parent = source.parent(name)
    if isinstance(parent, (cst.AssignTarget, cst.AnnAssign)):
        return isinstance(parent, cst.AssignTarget) or parent.target is name
    if isinstance(parent, (cst.AugAssign, cst.For)):
        return parent.target is name
    return isinstance(parent, (cst.AsName, cst.Element, cst.StarredElement)) and _is_target(source, name)


def _is_target(source: SourceFile, name: cst.Name) -> bool:
    below: cst.CSTNode = name
    for ancestor in source.ancestors(name):
        if isinstance(ancestor, (cst.AssignTarget, cst.AsName)):
            return True
        if isinstance(ancestor, cst.For):
            return below is ancestor.target
        if isinstance(ancestor, cst.BaseStatement):
            return False
        below = ancestor
    return False


def _in_inner_loop(facts: LoopFacts, use: cst.Name) -> bool:
    """Whether a use is in a loop within the batch, which would read it in each round."""
    for ancestor in facts.source.ancestors(use):
        if ancestor is facts.loop:
            return False
        if isinstance(ancestor, (cst.For, cst.While, cst.BaseComp)):
            return True
    return False


def _is_together(facts: LoopFacts, binding: cst.Name, uses: tuple[cst.Name, ...]) -> bool:
    """Whether the lines that use the value follow directly, so that they wait together with it as they are."""
    source = facts.source
    line = next(one for one in source.ancestors(binding) if isinstance(one, cst.SimpleStatementLine))
    block = source.parent(line)
    if not isinstance(block, cst.IndentedBlock):
        return True
    left, names = set(uses), {binding.value}
    for statement in block.body[list(block.body).index(line) :]:
        parts = list(walk(statement))
        mentioned = any(isinstance(part, cst.Name) and part.value in names for part in parts)
        if not mentioned and not any(read_of(part) is not None for part in parts):
            return not left
        left -= {part for part in parts if isinstance(part, cst.Name)}
        if not left:
            return True
    return not left
