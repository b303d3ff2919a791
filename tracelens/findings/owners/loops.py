"""The loops of a source text: which of them a line stands in.

In: the text of a file, lines. Out: the innermost loop or comprehension around a line, by its first and last line.
"""

from __future__ import annotations

import ast
from functools import lru_cache

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def around(text: str, line: int) -> tuple[int, int] | None:
    """The innermost loop that has the line, its first line included; None where there is none, or no tree."""
    return next((span for span in _spans(text) if span[0] <= line <= span[1]), None)


@lru_cache(maxsize=8)
def _spans(text: str) -> tuple[tuple[int, int], ...]:
    """The shortest first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    nodes = (node for node in ast.walk(tree) if isinstance(node, _LOOPS))
    spans = {(node.lineno, node.end_lineno or node.lineno) for node in nodes}
    return tuple(sorted(spans, key=lambda span: span[1] - span[0]))
