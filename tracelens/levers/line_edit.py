"""The text of a file with the call on one line left out, or made every K-th time: an experiment in a working copy.

In: a text and a line. Out: the changed text, with as many lines as before, so that other places keep their numbers.
Python's own parser finds the call; nothing is run.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from tracelens.errors import UsageError
from tracelens.messages import say

_EVERY = "if next(globals().setdefault({name!r}, __import__('itertools').count(1))) % {every} == 0: "
"""Counts in the module's own names: nothing has to be written anywhere else in the file."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """FILE:LINE, or FILE:LINE/K."""

    path: str
    line: int
    every: int | None = None


def place(value: str) -> CallPlace:
    """What the value of a `line` lever names."""
    match = re.fullmatch(r"(.+):(\d+)(?:/(\d+))?", value)
    if match is None:
        raise UsageError(
            say("{value!r} is no place", value=value), hint=say("write line=FILE:LINE, or line=FILE:LINE/K")
        )
    every = None if match[3] is None else int(match[3])
    if every is not None and every < 2:
        raise UsageError(say("every {every} calls is every call", every=every), hint=say("K is 2 or more"))
    return CallPlace(match[1], int(match[2]), every)


def without_call(text: str, where: CallPlace) -> str:
    """`text` without the call on that line; raises `UsageError` where it holds no call that can be left out."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise UsageError(
            say("{path} is not Python that can be read: {error}", path=where.path, error=error),
            hint=say("is it the right file?"),
        ) from None
    statement = _statement(tree, where)
    call = _call(statement)
    if isinstance(statement, ast.Expr):
        return _replaced(text, statement, where)
    if where.every is not None:
        raise UsageError(
            say(
                "what {path}:{line} returns is used, so it cannot be called every {every} times only",
                path=where.path,
                line=where.line,
                every=where.every,
            ),
            hint=say("without /K it returns None"),
        )
    return _spliced(text, call, "None" + "\n" * ((call.end_lineno or call.lineno) - call.lineno))


def _statement(tree: ast.Module, where: CallPlace) -> ast.stmt:
    """The innermost and last statement on the line, which must be a simple one with a call."""
    on_line = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= where.line <= (node.end_lineno or node.lineno)
    ]
    if not on_line:
        raise UsageError(
            say("{path}:{line} holds no statement", path=where.path, line=where.line),
            hint=say("give the line of a call"),
        )
    statement = max(on_line, key=lambda node: (node.lineno, node.col_offset))
    if not isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign) or not _calls(statement):
        raise UsageError(
            say("{path}:{line} is no call that can be left out", path=where.path, line=where.line),
            hint=say("give the line of a call that stands by itself, such as gc.collect()"),
        )
    return statement


def _calls(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    value = value.value if isinstance(value, ast.Await) else value
    return isinstance(value, ast.Call)


def _call(statement: ast.stmt) -> ast.expr:
    value: ast.expr = statement.value  # type: ignore[attr-defined]
    return value


def _replaced(text: str, statement: ast.Expr, where: CallPlace) -> str:
    lines = (statement.end_lineno or statement.lineno) - statement.lineno
    if where.every is None:
        return _spliced(text, statement, "pass" + "\n" * lines)
    condition = _EVERY.format(name=f"_tracelens_calls_{where.line}", every=where.every)
    start, _ = _span(text, statement)
    data = text.encode()
    if data[:start].rsplit(b"\n", 1)[-1].strip():  # behind another statement or a colon: no `if` may stand there
        raise UsageError(
            say("{path}:{line} has more than one statement", path=where.path, line=where.line),
            hint=say("without /K it can be left out"),
        )
    return (data[:start] + condition.encode() + data[start:]).decode()


def _span(text: str, node: ast.stmt | ast.expr) -> tuple[int, int]:
    """Where a node stands, in bytes of UTF-8, as the parser counts columns."""
    starts = [0]
    for row in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    last, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    return starts[node.lineno - 1] + node.col_offset, starts[last - 1] + end


def _spliced(text: str, node: ast.stmt | ast.expr, new: str) -> str:
    start, end = _span(text, node)
    data = text.encode()
    return (data[:start] + new.encode() + data[end:]).decode()
