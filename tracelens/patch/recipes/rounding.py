"""What recipes share that have the same computed with another rounding: they need --unsafe, and name no line.

In: proposals. Out: an answer in which each is made, or declined because nobody asked for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tracelens.messages import say
from tracelens.model import Declined, Location
from tracelens.patch.code.names import FileNames
from tracelens.patch.code.source import SourceFile, Splice
from tracelens.patch.deferral import loop_lines
from tracelens.patch.loop.loops import KEPT, Blocked
from tracelens.patch.proposal import COMPARE, Proposal, RecipeAnswer, RecipeRequest

EVIDENCE = say("named by its lever; `tracelens try` measures it")


def answer(request: RecipeRequest, proposals: Iterable[Proposal], declined: Iterable[Declined] = ()) -> RecipeAnswer:
    """The proposals and what was declined at the lines that the targets mean, all of them where none has a line."""
    lines = {target.line for target in request.targets} - {None}
    made = [one for one in proposals if not lines or one.location.line in lines]
    left = [one for one in declined if not lines or one.location.line in lines]
    if request.unsafe:
        return RecipeAnswer(tuple(made), tuple(left))
    needs = [
        Declined(one.edit, one.location, say("needs --unsafe: {reason}", reason=one.reason), COMPARE) for one in made
    ]
    return RecipeAnswer((), (*needs, *left))


def proposal(request: RecipeRequest, line: int, reason: str, splices: Sequence[Splice]) -> Proposal:
    """The change at a line, which alters numbers in a way that `reason` tells."""
    return Proposal(
        edit=request.edit.kind,
        tier="unsafe",
        location=Location(request.source.shown, line),
        reason=reason,
        evidence=EVIDENCE,
        splices=tuple(splices),
    )


def declined(request: RecipeRequest, line: int | None, obstacle: str, by_hand: str) -> Declined:
    return Declined(request.edit.kind, Location(request.source.shown, line), obstacle, by_hand)


def name_of_torch(names: FileNames) -> str:
    """What the file calls `torch`; "" where it has no name for it."""
    return next((name for name, full in names.imports.items() if full == "torch"), "")


def line_before(source: SourceFile, statement: ast.stmt, text: str, rank: int = 0) -> Splice:
    """A line of its own above a statement and the comments directly above that; `rank` orders several."""
    line = statement.lineno
    indent = indentation(source, line)
    while line > 1 and source.line_text(line - 1).startswith(f"{indent}#"):
        line -= 1
    return _lines_at(source, line, indent, text, rank)


def line_after(source: SourceFile, statement: ast.stmt, text: str, rank: int = 0) -> Splice:
    """A line of its own below a statement."""
    below = (statement.end_lineno or statement.lineno) + 1
    return _lines_at(source, below, indentation(source, statement.lineno), text, rank)


def indentation(source: SourceFile, line: int) -> str:
    """The white space at the beginning of a line."""
    text = source.line_text(line)
    return text[: len(text) - len(text.lstrip(" \t"))]


def has_line_of_its_own(source: SourceFile, statement: ast.stmt) -> bool:
    """Whether nothing else begins or ends on the statement's lines: no `if x: f()`, no `a; b`."""
    begin = source.line_text(statement.lineno).encode()[: statement.col_offset]
    end = source.line_text(statement.end_lineno or statement.lineno).encode()[statement.end_col_offset or 0 :]
    return not begin.strip() and (not end.strip() or end.strip().startswith(b"#"))


def _lines_at(source: SourceFile, line: int, indent: str, text: str, rank: int) -> Splice:
    written = "\n".join(f"{indent}{one}" if one else "" for one in text.splitlines())
    return loop_lines.whole_line(source, line, written, rank)


def check_line(source: SourceFile, statement: ast.stmt) -> None:
    """Raise `Blocked` where no line can be put beside a statement, or the user wants to have it as it is."""
    if not has_line_of_its_own(source, statement):
        raise Blocked(None, say("its statement shares a line with another"), say("write a line of its own"))
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    lines = range(max(1, first - 1), (first if isinstance(statement, ast.For | ast.While) else last) + 1)
    if any("tracelens: keep" in source.line_text(line) for line in lines):
        raise Blocked(None, *KEPT)
