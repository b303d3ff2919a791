"""Statements below a condition on the number of the batch: found by their line, and made every Nth batch only.

In: a RecipeRequest and a loop. Out: the condition, and the statements that go below it. Apart because the recipes
for lines of output and for calls that a training does not need both write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.loop.batch_numbers import new_number, own_number
from tracelens.patch.proposal import RecipeRequest


def line_at(source: SourceFile, number: int | None) -> cst.SimpleStatementLine | None:
    """The statement at a line that has its lines for itself."""
    for node in walk(source.module):
        if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 and source.covers(node, number):
            return node
    return None


def condition(request: RecipeRequest, loop: cst.For) -> tuple[str, list[Splice]]:
    """What holds in every Nth batch, from the first on; and what the `for` line needs so that batches are counted."""
    source = request.source
    new = unused_name("batch_number", source.identifiers)
    number = own_number(loop, loop.iter) or new_number(source, loop, new)
    return number.is_nth(request.edit.interval), list(number.splices)


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
