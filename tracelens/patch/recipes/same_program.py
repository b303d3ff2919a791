"""A file in which more can wait, and which is the same program: names told apart, reads made where they are shown.

In: a RecipeRequest. Out: `Reworded` requests, the best first. What is proposed for one of them is written into the
original file together with its splices. Lines keep their numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice, apply_splices, parse
from tracelens.patch.loop.loops import scope_of
from tracelens.patch.loop.sites import Site, find
from tracelens.patch.proposal import RecipeRequest, Target
from tracelens.patch.recipes.named_reads import NamedRead, bound_name, loop_and_places, named_reads


@dataclass(frozen=True)
class Reworded:
    """`lines`: where all reads must be able to wait, or nothing is won. `rare`: reads that are done with by this."""

    request: RecipeRequest
    splices: tuple[Splice, ...]
    lines: frozenset[int]
    named: tuple[NamedRead, ...]

    @property
    def rare(self) -> tuple[NamedRead, ...]:
        return tuple(one for one in self.named if one.rare)

    @property
    def new_lines(self) -> frozenset[int]:
        """Where named reads are made now."""
        return frozenset(line for one in self.named for line in one.use_lines(one.sites[0].source))


def reworded(request: RecipeRequest) -> Iterator[Reworded]:
    """The file with each read where its name is used; the same for names that few batches use alone."""
    named = named_reads(request)
    ways = [named, tuple(one for one in named if one.rare)] if any(not one.rare for one in named) else [named]
    for chosen in ways:
        found = _reworded(request, chosen)
        if found is not None:
            yield found


def _reworded(request: RecipeRequest, named: Sequence[NamedRead]) -> Reworded | None:
    source = request.source
    own = frozenset(site.node for one in named for site in one.sites)
    apart = apart_names(request, own)
    splices = (*(splice for one in named for splice in one.splices(source)), *apart.splices)
    if not splices:
        return None
    changed = parse(source.path, source.shown, apply_splices(source, splices), source.entry)
    targets: dict[Target, None] = {}
    for target in request.targets:
        lines = _lines(source, target, named)
        targets |= dict.fromkeys(replace(target, line=line) for line in lines)
    shown = frozenset(line for one in named if not one.rare for line in one.use_lines(source))
    request = replace(request, source=changed, names=changed.names, targets=tuple(targets))
    return Reworded(request, splices, apart.lines | shown, tuple(named))


def _lines(source: SourceFile, target: Target, named: Sequence[NamedRead]) -> Iterator[int | None]:
    """Where the reads of a target are now; nowhere for those that few batches make."""
    here = [one for one in named if any(site.line == target.line for site in one.sites)]
    moved = {site.node for one in here for site in one.sites}
    others = [site for site in find(source) if site.kind == "read" and site.line == target.line]
    if not here or any(site.node not in moved for site in others):
        yield target.line
    for one in here:
        if not one.rare:
            yield from sorted(one.use_lines(source))


def renumbered(before: SourceFile, after: SourceFile, splices: Sequence[Splice]) -> Mapping[int, int]:
    """The numbers of the file's sites in the file with the splices; without those that are no sites any more."""
    now = {(site.kind, after.span(site.node)[0], after.span(site.node)[1]): n for n, site in enumerate(find(after))}
    starts = {(kind, start): number for (kind, start, _), number in now.items()}
    out: dict[int, int] = {}
    for number, site in enumerate(find(before)):
        start, end = (_moved(position, splices) for position in before.span(site.node))
        found = now.get((site.kind, start, end), starts.get((site.kind, start)))
        if found is not None:
            out[number] = found
    return out


def _moved(position: int, splices: Sequence[Splice]) -> int:
    """Where a character stands once the splices are made that end before it."""
    return position + sum(len(one.text) - (one.end - one.start) for one in splices if one.end <= position)


@dataclass(frozen=True)
class Apart:
    """What gives the numbers names of their own, and the lines of the reads that need it."""

    splices: tuple[Splice, ...]
    lines: frozenset[int]


def apart_names(request: RecipeRequest, without: Collection[cst.CSTNode] = ()) -> Apart:
    """A name for each number that takes the name of its tensor; none for the reads `without` which to do."""
    source = request.source
    wanted = {target.line for target in request.targets}
    taken, splices, lines = set(source.identifiers), dict[int, Splice](), set[int]()
    for site in find(source):
        asked = site.kind == "read" and site.line in wanted and site.node not in without
        binding = bound_name(site) if asked else None
        places = _places(source, site, binding) if binding is not None else None
        if binding is None or places is None:
            continue
        lines.add(site.line)
        if source.span(binding)[0] in splices:
            continue
        in_function = isinstance(scope_of(source, binding), cst.FunctionDef)
        name = unused_name(f"{binding.value}_{'value' if in_function else 'number'}", taken)
        taken.add(name)
        splices |= {source.span(one)[0]: Splice(*source.span(one), name) for one in places}
    return Apart(tuple(splices[start] for start in sorted(splices)), frozenset(lines))


def _places(source: SourceFile, site: Site, binding: cst.Name) -> tuple[cst.Name, ...] | None:
    """The places that mean the number, where the loop means another variable by the same name, too."""
    known = loop_and_places(source, site, binding)
    if known is None:
        return None
    loop, places = known
    return places if any(one not in places for one in _mentions(loop, binding.value)) else None


def _mentions(loop: cst.CSTNode, name: str) -> Iterator[cst.Name]:
    return (part for part in walk(loop) if isinstance(part, cst.Name) and part.value == name)
