"""Counters that end a loop: `while step < most`, `if step >= most: break`.

In: a running loop's source and its frame. Out: how far each such counter is from its end. A counter says something
only if it moves from one step to the next, so whoever asks must ask twice. Apart from `remaining`, which counts what
the loops themselves say.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FrameType

from tracelens.capture.inside.frame_values import UnknownValue, integer, value

Key = tuple[str, int, int]
"""Where the comparison stands: (path, line, column)."""

_LEAVING = ("exit", "quit", "_exit")
_NO_EQUAL = (ast.Lt, ast.Gt, ast.NotEq, ast.Eq)
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
}
"""A loop that is left when one holds goes on while the other does."""


def counters(loop: ast.For | ast.AsyncFor | ast.While, frame: FrameType) -> Mapping[Key, int]:
    """How many more values each counter may take; at most one too few, as it may be advanced before or after a step."""
    found = {}
    for test, goes_on in _tests(loop, frame):
        left = _distance(test, goes_on, frame)
        if left is not None:
            found[frame.f_code.co_filename, test.lineno, test.col_offset] = left
    return found


def turns(loop: ast.While, frame: FrameType) -> int | None:
    """Turns of a `while` after this one, by its own condition; None where that is no counter."""
    left = [_distance(test, True, frame) for test in _parts(loop.test, ast.And)]
    return min((turn for turn in left if turn is not None), default=None)


def _tests(loop: ast.For | ast.AsyncFor | ast.While, frame: FrameType) -> Iterator[tuple[ast.Compare, bool]]:
    """Comparisons that end the loop, each with whether the loop goes on while it holds."""
    if isinstance(loop, ast.While):
        yield from ((test, True) for test in _parts(loop.test, ast.And))
    pending = list(loop.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.With, ast.AsyncWith, ast.Try)):
            pending += node.body
        elif isinstance(node, ast.If) and any(map(_leaves, node.body)):
            yield from ((test, False) for test in _parts(_without_switches(node.test, frame), ast.Or))


def _parts(test: ast.expr, joined_by: type[ast.boolop]) -> list[ast.Compare]:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, joined_by) else [test]
    return [part for part in parts if isinstance(part, ast.Compare) and len(part.ops) == 1]


def _without_switches(test: ast.expr, frame: FrameType) -> ast.expr:
    """`args.most and step >= args.most` without what is true all the time."""
    if not (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)):
        return test
    rest = [part for part in test.values if not _is_on(part, frame)]
    return rest[0] if len(rest) == 1 else test


def _is_on(part: ast.expr, frame: FrameType) -> bool:
    try:
        found = value(part, frame)
    except UnknownValue:
        return False
    return isinstance(found, int) and found != 0


def _leaves(node: ast.stmt) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return getattr(function, "id", getattr(function, "attr", "")) in _LEAVING
    return isinstance(node, (ast.Break, ast.Return))


def _distance(test: ast.Compare, goes_on: bool, frame: FrameType) -> int | None:
    kind = type(test.ops[0])
    if not goes_on:
        kind = _OPPOSITE.get(kind, ast.Is)
    try:
        left, right = integer(test.left, frame), integer(test.comparators[0], frame)
    except UnknownValue:
        return None
    if kind in (ast.Lt, ast.LtE):
        distance = right - left
    elif kind in (ast.Gt, ast.GtE):
        distance = left - right
    elif kind is ast.NotEq:
        distance = abs(right - left)
    else:
        return None
    return distance - (kind in _NO_EQUAL) if distance >= 0 else None
