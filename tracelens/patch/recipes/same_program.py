"""A file in which more can wait, and which is the same program: names told apart, reads made where they are shown.

In: a RecipeRequest. Out: `Reworded` requests, the best first. What is proposed for one of them is written into the
original file together with its splices. Lines keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tracelens.patch.code.source import SourceFile, Splice, apply_splices, parse
from tracelens.patch.loop.sites import find
from tracelens.patch.proposal import RecipeRequest, Target
from tracelens.patch.recipes import names_apart
from tracelens.patch.recipes.named_reads import NamedRead, named_reads


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
    apart = names_apart.apart(request, own)
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
