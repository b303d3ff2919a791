"""Places that no batch ever comes by: below `if DEBUG:` in a file that says `DEBUG = False` and nothing else of it.

In: a file and a node. Out: whether the node is never evaluated. What is not certain runs.
"""

from __future__ import annotations

import re

import libcst as cst

from tracelens.patch.code.names import rebound, walk
from tracelens.patch.code.source import SourceFile


def never_runs(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether a condition around the node is always false, or always true where the node is in its `else`."""
    below = node
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, cst.If) and below in (ancestor.body, ancestor.orelse):
            known = _known(source, ancestor.test)
            if known is not None and known is (below is ancestor.orelse):
                return True
        below = ancestor
    return False


def _known(source: SourceFile, test: cst.BaseExpression) -> bool | None:
    """What a condition always is; None where it depends."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _known(source, test.expression)
        return None if inner is None else not inner
    if isinstance(test, cst.BooleanOperation):
        sides = (_known(source, test.left), _known(source, test.right))
        decides = isinstance(test.operator, cst.Or)
        return decides if decides in sides else sides[0] if sides[0] is sides[1] else None
    named = isinstance(test, cst.Name) and test.value not in ("True", "False")
    value = _constant(source, test.value) if isinstance(test, cst.Name) and named else test
    if isinstance(value, cst.Name) and value.value in ("True", "False"):
        return value.value == "True"
    return value.evaluated_value != 0 if isinstance(value, cst.Integer) else None


def _constant(source: SourceFile, name: str) -> cst.BaseExpression | None:
    """The value of a name that the file binds once, at its top, and that nobody sets as an attribute or by its text."""
    values = [
        part.value
        for statement in source.module.body
        if isinstance(statement, cst.SimpleStatementLine)
        for part in statement.body
        if isinstance(part, cst.Assign) and [name] == sorted(rebound(part))
    ]
    binding = [part for part in walk(source.module) if _binds(part, name)]
    changed = re.search(rf"\.{name}\s*=(?!=)|\bglobals\b|\bsetattr\b", source.project_text)
    return values[0] if len(values) == len(binding) == 1 and changed is None else None


def _binds(part: cst.CSTNode, name: str) -> bool:
    if isinstance(part, cst.Param):
        return part.name.value == name
    return isinstance(part, (cst.BaseSmallStatement, cst.For, cst.With)) and name in rebound(part)
