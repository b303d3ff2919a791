"""The number of a batch in its loop: the loop's own count, or one that `enumerate` adds.

In: a loop. Out: a name with the number of its first batch, and what the `for` line needs for it. Apart because whatever
is done in every Nth batch, or in the last one, asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.names import dotted, rebound
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import own_nodes

_OUTER_BEGIN, _OUTER_END = -1, 1
"""Around whatever else goes into the `for` line."""


@dataclass(frozen=True)
class BatchNumber:
    """`first`: the number of the first batch. `splices`: for a loop that does not count its batches itself."""

    name: str
    first: int
    splices: tuple[Splice, ...] = ()

    def is_nth(self, every: int) -> str:
        """A condition that holds in every Nth batch, from the first on."""
        return f"{self.name} % {every} == {self.first % every}"

    @property
    def passed(self) -> str:
        """How many batches there have been, with this one."""
        more = 1 - self.first
        return self.name if not more else f"{self.name} {'+' if more > 0 else '-'} {abs(more)}"


def own_number(loop: cst.For, iterated: cst.BaseExpression) -> BatchNumber | None:
    """The loop's own count of its batches over `iterated`, if nothing in the loop changes it."""
    call = iterated
    if not isinstance(call, cst.Call) or any(argument.star for argument in call.args):
        return None
    called = dotted(call.func)
    target: cst.BaseExpression | None = loop.target
    first = 0
    if called == "enumerate" and isinstance(loop.target, (cst.Tuple, cst.List)):
        target = loop.target.elements[0].value
        start = call.args[1].value if len(call.args) == 2 else None
        if start is not None and not isinstance(start, cst.Integer):
            return None
        first = start.evaluated_value if isinstance(start, cst.Integer) else 0
    elif called not in ("range", "trange") or len([one for one in call.args if one.keyword is None]) > 1:
        return None
    if not isinstance(target, cst.Name) or _changes(loop, target.value):
        return None
    return BatchNumber(target.value, first)


def new_number(source: SourceFile, loop: cst.For, name: str) -> BatchNumber:
    """A count of the batches under a new name."""
    target, iterated = loop.target, loop.iter
    bare = isinstance(target, cst.Tuple) and not target.lpar
    before, after = ("(", ")") if bare else ("", "")
    start, end = source.outer_span(target)
    inner = isinstance(iterated, cst.Tuple) and not iterated.lpar
    opening, closing = ("enumerate((", "))") if inner else ("enumerate(", ")")
    first, last = source.outer_span(iterated)
    # Around whatever else goes into the line: another hunk may wrap the loader itself.
    head = (
        Splice(start, start, f"{name}, {before}"),
        Splice(first, first, opening, _OUTER_BEGIN),
        Splice(last, last, closing, _OUTER_END),
    )
    return BatchNumber(name, 0, (*head, Splice(end, end, after)) if after else head)


def _changes(loop: cst.For, name: str) -> bool:
    nodes = own_nodes(loop.body)
    return any(_rebinds(node) and name in rebound(node) for node in nodes)


def _rebinds(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With))
