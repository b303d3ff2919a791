"""Conditions that ask what an object is, not what is in it: `writer is not None`, `hasattr(bar, "set_postfix")`.

In: a condition. Out: the keys of the names that it asks about in no other way. A value that goes into such an object
later leaves their answer as it is, unless the loop binds the name anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from tracelens.patch.code.names import dotted, key, variables, walk
from tracelens.patch.effects.words import words

_ASK = words("hasattr isinstance callable issubclass")
_SAME = (cst.Is, cst.IsNot)


def asked_only(condition: cst.CSTNode) -> frozenset[str]:
    """The keys that the condition mentions nowhere but in such questions."""
    asked = Counter(key(one) for part in walk(condition) for one in _objects(part))
    mentioned = Counter(key(one) for one in variables(condition))
    return frozenset(name for name, times in asked.items() if mentioned[name] == times)


def _objects(node: cst.CSTNode) -> Iterator[cst.Name | cst.Attribute]:
    asked: list[cst.BaseExpression] = []
    if isinstance(node, cst.Call) and dotted(node.func) in _ASK and node.args:
        asked = [node.args[0].value]
    elif isinstance(node, cst.Comparison) and all(isinstance(one.operator, _SAME) for one in node.comparisons):
        asked = [node.left, *(one.comparator for one in node.comparisons)]
    for one in asked:
        yield from (variable for variable in variables(one) if variable is one)
