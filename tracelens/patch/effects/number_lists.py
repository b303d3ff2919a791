"""Lists that `.tolist()` makes of a tensor: they have numbers in them, and lists of numbers, as long as nobody adds to
them.

In: an object of a library. Out: whether it is such a list. Apart because the effects see a list of a library's data as
more of that data: only the kinds of values tell what it was made of. An array of objects, and a column of a table, give
what they have, which may be tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.evidence import Evidence
from tracelens.patch.effects.kind import TENSOR
from tracelens.patch.effects.kinds import Kinds
from tracelens.patch.effects.memory import PLAIN
from tracelens.patch.effects.objects import Activation, Module, Object, Thing
from tracelens.patch.effects.words import words

_POSITIONS = words("argmax argmin argsort")
"""Methods that give positions, whatever a library's data has in it: an array of objects has no others."""


class NumberLists:
    """Asks one analysis. `filled`: the objects that any code changes in place."""

    def __init__(self, analysis: Analysis, kinds: Kinds, filled: Collection[Object]) -> None:
        self._analysis, self._kinds, self._filled = analysis, kinds, filled
        self._evidence = Evidence(analysis)

    def has(self, one: Object) -> bool:
        """Whether an object is certainly a list of numbers, however deep."""
        call = one.site if isinstance(one, Thing) else None
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "tolist"):
            return False
        inside = self._analysis.memory.fields.get(one, {}).values()
        if one in self._filled or any(part is not PLAIN for held in inside for part in held):
            return False
        owner, units = call.func.value, tuple(self._units(call))
        return bool(units) and all(self._has_numbers(unit, owner) for unit in units)

    def _units(self, call: ast.Call) -> Iterator[Module | Activation]:
        """All that make the call; what waits for a tensor leaves an effect at its place."""
        for unit, summary in self._analysis.memory.summaries.items():
            if isinstance(unit, (Module, Activation)) and any(node is call for node, _ in summary.effects):
                yield unit

    def _has_numbers(self, unit: Module | Activation, owner: ast.expr) -> bool:
        if self._kinds.asked(unit, owner).what == TENSOR:
            return True
        method = owner.func if isinstance(owner, ast.Call) else None
        counts = isinstance(method, ast.Attribute) and method.attr in _POSITIONS
        return counts and isinstance(method, ast.Attribute) and self._evidence.is_data(unit, method.value)
