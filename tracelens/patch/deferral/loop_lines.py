"""The lines around a loop at which a patch inserts something.

In: a loop and its file. Out: line numbers, and splices of whole lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral.read_places import ReadPlace
from tracelens.patch.loop.loops import Loop

BEFORE, INSIDE = 0, 1
"""Ranks of splices at one place: lines before a loop go above those that belong to a statement. Lines that end the code
above go first, the deeper the earlier: see `whole_line`."""


def first_line(source: SourceFile, statement: cst.SimpleStatementLine | cst.BaseCompoundStatement) -> int:
    """The line of a statement, or of its decorators and the comments directly above it."""
    decorators = statement.decorators if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else ()
    line = source.line(decorators[0] if decorators else statement)
    for above in reversed(statement.leading_lines):
        if above.comment is None:
            break
        line -= 1
    return line


def line_of(source: SourceFile, place: ReadPlace) -> int:
    """The line above which something is read: with a test of its own above the comments of the statement, too."""
    above = place.statement
    if place.test and isinstance(above, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        return first_line(source, above)
    return source.line(above)


def line_after(source: SourceFile, loop: Loop) -> int:
    """The first line that is neither a part of the loop nor above a comment at its body's indentation."""
    last = max(source.last_line(node) for node in walk(loop) if isinstance(node, cst.BaseSmallStatement))
    indent = len(source.indentation(loop))
    for line in range(last + 1, len(source.line_starts) + 1):
        text = source.line_text(line)
        deeper = len(text) - len(text.lstrip(" \t")) > indent
        if text.strip() and not (text.lstrip().startswith("#") and deeper):
            break
        last = line if text.strip() else last
    return last + 1


def whole_line(source: SourceFile, line: int, text: str, rank: int | None = None) -> Splice:
    """A line of its own before `line`, at the end of what stands above unless its rank is another; also at the end of a
    file without a newline."""
    position = source.line_start(line)
    missing = position == len(source.text) and bool(source.text) and not source.text.endswith(("\n", "\r"))
    at_the_end = BEFORE - 1 - (len(text) - len(text.lstrip(" \t")))
    return Splice(position, position, f"\n{text}" if missing else f"{text}\n", at_the_end if rank is None else rank)


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
