"""Statements below a condition on the number of the batch: found by their line, and made every Nth batch only.

In: a RecipeRequest and a loop. Out: the condition, and splices that put statements below it. Apart because the recipes
for lines of output and for calls that a training does not need both write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.patch.code.names import dotted, rebound, walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.loops import own_nodes
from tracelens.patch.proposal import RecipeRequest

_OUTER_BEGIN, _OUTER_END = -1, 1
"""Around whatever else goes into the `for` line."""


def line_at(source: SourceFile, number: int | None) -> cst.SimpleStatementLine | None:
    """The statement at a line that has its lines for itself."""
    for node in walk(source.module):
        alone = isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1
        if alone and number is not None and source.line(node) <= number <= source.last_line(node):
            return cst.ensure_type(node, cst.SimpleStatementLine)
    return None


def condition(request: RecipeRequest, loop: cst.For) -> tuple[str, list[Splice]]:
    """What holds in every Nth batch, from the first on; and what the `for` line needs so that batches are counted."""
    source, every = request.source, request.edit.interval
    counted = _counter(loop)
    if counted is not None:
        name, first = counted
        return f"{name} % {every} == {first % every}", []
    name = unused_name("batch_number", source.identifiers)
    target, iterated = loop.target, loop.iter
    bare = isinstance(target, cst.Tuple) and not target.lpar
    before, after = ("(", ")") if bare else ("", "")
    start, end = source.outer_span(target)
    inner = isinstance(iterated, cst.Tuple) and not iterated.lpar
    opening, closing = ("enumerate((", "))") if inner else ("enumerate(", ")")
    first, last = source.outer_span(iterated)
    # Around whatever else goes into the line: another hunk may wrap the loader itself.
    head = [
        Splice(start, start, f"{name}, {before}"),
        Splice(first, first, opening, _OUTER_BEGIN),
        Splice(last, last, closing, _OUTER_END),
    ]
    return f"{name} % {every} == 0", [*head, Splice(end, end, after)] if after else head


def _counter(loop: cst.For) -> tuple[str, int] | None:
    """The loop's own count of its batches, with the number of the first one, if nothing in the loop changes it."""
    call = loop.iter
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
    elif called != "range" or len(call.args) > 1:
        return None
    if not isinstance(target, cst.Name) or _changes(loop, target.value):
        return None
    return target.value, first


def _changes(loop: cst.For, name: str) -> bool:
    nodes = own_nodes(loop.body)
    return any(_rebinds(node) and name in rebound(node) for node in nodes)


def _rebinds(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With))


def groups(source: SourceFile, lines: Sequence[cst.SimpleStatementLine]) -> Iterator[list[cst.SimpleStatementLine]]:
    """Neighbors in one block go below one condition."""
    group: list[cst.SimpleStatementLine] = []
    for line in lines:
        if group:
            block = cst.ensure_type(source.parent(group[-1]), cst.IndentedBlock)
            follows = source.parent(line) is block and _next_to(block, group[-1]) is line
            if not follows:
                yield group
                group = []
        group.append(line)
    if group:
        yield group


def _next_to(block: cst.IndentedBlock, line: cst.CSTNode) -> cst.CSTNode | None:
    place = next(number for number, one in enumerate(block.body) if one is line)
    return block.body[place + 1] if place + 1 < len(block.body) else None


def below(source: SourceFile, group: Sequence[cst.SimpleStatementLine], head: str) -> Iterator[Splice]:
    """Insertions that put neighboring lines below a condition, as they are."""
    unit, indent = source.module.default_indent, source.indentation(group[0])
    first, last = source.line(group[0]), source.last_line(group[-1])
    start = source.line_start(first)
    yield Splice(start, start, f"{indent}{head}\n{unit}")
    text = {number for line in group for number in _lines_of_text(source, line)}
    for number in range(first + 1, last + 1):
        if number not in text and source.line_text(number).strip():
            begin = source.line_start(number)
            yield Splice(begin, begin, unit)


def _lines_of_text(source: SourceFile, line: cst.SimpleStatementLine) -> Iterator[int]:
    """Lines that begin inside a string: what is put before them would become a part of it."""
    for node in walk(line):
        if isinstance(node, (cst.SimpleString, cst.FormattedString)):
            yield from range(source.line(node) + 1, source.last_line(node) + 1)
