"""A name that stands for a tensor and then for its number: `loss = loss.item()` below `loss.backward()`.

In: a RecipeRequest. Out: `Apart`, the splices by which the number has a name of its own. That is the same program: only
places that mean the new variable are renamed. Whether the read can wait is asked of the recipe as for any other; under
one name for both it would hold back the training itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import scope_of
from tracelens.patch.loop.sites import Site, find
from tracelens.patch.proposal import RecipeRequest
from tracelens.patch.recipes.named_reads import bound_name, loop_and_places


@dataclass(frozen=True)
class Apart:
    """What gives the numbers names of their own, and the lines of the reads that need it."""

    splices: tuple[Splice, ...]
    lines: frozenset[int]


def apart(request: RecipeRequest, without: Collection[cst.CSTNode] = ()) -> Apart:
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
