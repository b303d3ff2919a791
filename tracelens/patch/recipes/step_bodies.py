"""The body of a step function as that of a loop, so that its reads are planned as those of a training loop are.

In: a function of a file. Out: a `StepBody`, which tells places in the body from those in the file itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import walk
from tracelens.patch.code.naming import unused_name
from tracelens.patch.code.source import SourceFile, Splice, parse
from tracelens.patch.deferral import loop_lines
from tracelens.patch.loop.loops import RETURN_TENSOR, Blocked


@dataclass(frozen=True)
class StepBody:
    """The file in which the function's body is that of a loop. Its text is the same but for one line more.

    The loop's first line is indented by one space more than the function, and the body stays where it is. It takes
    the place of an empty line above the function, where there is one, so that lines keep their numbers.
    """

    source: SourceFile
    loop: cst.For
    moved: int
    """By how much places in the body moved."""

    def before(self, node: cst.CSTNode) -> tuple[int, int]:
        """The characters of a node of the body in the file itself."""
        start, end = self.source.span(node)
        return start - self.moved, end - self.moved

    def outside(self, splice: Splice) -> Splice:
        """A splice of the body, for the file itself."""
        return replace(splice, start=splice.start - self.moved, end=splice.end - self.moved)


def in_loop(source: SourceFile, function: cst.FunctionDef) -> StepBody:
    body = function.body
    if not isinstance(body, cst.IndentedBlock):
        raise Blocked(function, say("its body stands on one line"), RETURN_TENSOR)
    start = body_start(source, function)
    indent = source.indentation(function)
    number = source.line(function)
    above = source.line_start(max(number - 1, 1))
    empty = number > 1 and not source.line_text(number - 1).strip()
    line = f"{indent} for {unused_name('batch_of_step', source.identifiers)} in (0,):{source.newline}"
    removed = source.text[above : source.line_start(number)] if empty else ""
    text = source.text[:above] + source.text[above + len(removed) : start] + line + source.text[start:]
    changed = parse(source.path, source.shown, text.encode(source.module.encoding), source.entry)
    loop = next(
        node
        for node in walk(changed.module)
        if isinstance(node, cst.For) and changed.span(node)[0] == start - len(removed) + len(indent) + 1
    )
    return StepBody(changed, loop, len(line) - len(removed))


def body_start(source: SourceFile, function: cst.FunctionDef) -> int:
    """Where the first line of the body begins, comments above its first statement included."""
    return source.line_start(top_of(source, function.body.body[0]))


def top_of(source: SourceFile, statement: cst.CSTNode) -> int:
    """The line of a statement, or of the comments directly above it."""
    if isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        return loop_lines.first_line(source, statement)
    return source.line(statement)
