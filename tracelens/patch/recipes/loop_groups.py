"""Places of one kind, grouped by the training loop around them, for the recipes that change whole loops.

In: sites with their targets. Out: loops with their members, in the order of the file; what stands in no loop, or must
stay, is declined. Apart because four recipes begin in this way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tracelens.model import Declined
from tracelens.patch.loop.loops import Blocked, Loop
from tracelens.patch.loop.sites import Site
from tracelens.patch.proposal import RecipeRequest, Target

Found = list[tuple[Site, Target]]
L = TypeVar("L", bound=Loop)


def by_loop(
    request: RecipeRequest, found: Found, declined: list[Declined], loop_of: Callable[[RecipeRequest, Site], L]
) -> list[tuple[L, Found]]:
    """`loop_of` gives the loop of a site, or raises `Blocked`."""
    loops: dict[int, tuple[L, Found]] = {}
    for site, target in found:
        try:
            loop = loop_of(request, site)
        except Blocked as blocked:
            declined.append(request.decline(site.node, blocked))
            continue
        loops.setdefault(id(loop), (loop, []))[1].append((site, target))
    return list(loops.values())
