"""Counters that end a loop: `while step < most`, `if step >= most: break`.

In: a running loop's source and its frame. Out: how far each counter is from the value that ends the loop. Whether a
compared variable counts steps at all shows only in two looks, one step apart: `loop_bounds.RemainingIterations.steps`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FrameType

from tracelens.capture.inside.frame_values import UnknownValue, integer

CounterKey = tuple[str, int, int]
"""The place of the comparison: (path, line, column)."""

_STRICT = (ast.Lt, ast.Gt, ast.NotEq)
"""With these the loop ends when both sides are equal, with the others one later."""
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
}
"""A loop that is left when one comparison holds goes on while its negation does."""


def counters(loop: ast.For | ast.While, frame: FrameType) -> Mapping[CounterKey, int]:
    """How many more values each counter takes; one too few where it is advanced before the step."""
    distances = {}
    for comparison, kind in _continue_conditions(loop):
        left = _distance(comparison, kind, frame)
        if left is not None:
            distances[frame.f_code.co_filename, comparison.lineno, comparison.col_offset] = left
    return distances


def _continue_conditions(loop: ast.For | ast.While) -> Iterator[tuple[ast.Compare, type[ast.cmpop]]]:
    """Comparisons that end the loop, each with the operator that holds while the loop goes on."""
    if isinstance(loop, ast.While):
        yield from ((test, type(test.ops[0])) for test in _comparisons(loop.test, ast.And))
    pending = list(loop.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.With, ast.Try)):
            pending += node.body
        elif isinstance(node, ast.If) and any(isinstance(inner, (ast.Break, ast.Return)) for inner in node.body):
            for test in _comparisons(node.test, ast.Or):
                kind = type(test.ops[0])
                if kind in _NEGATED:
                    yield test, _NEGATED[kind]


def _comparisons(test: ast.expr, joined_by: type[ast.boolop]) -> list[ast.Compare]:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, joined_by) else [test]
    return [part for part in parts if isinstance(part, ast.Compare) and len(part.ops) == 1]


def _distance(test: ast.Compare, kind: type[ast.cmpop], frame: FrameType) -> int | None:
    """Values between the two sides for which `kind` holds; None where it is no order of whole numbers."""
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
    return distance - (kind in _STRICT) if distance >= 0 else None
