"""Lists, tuples and dicts whose content may be tensors: who keeps one for later has to copy the tensors as well.

In: an object that a value can stand for. Out: whether it may hold some. An object of a class, of the project or of a
library, is never copied: where the program runs, statements that keep one are not put off. Lists that `.tolist()` makes
of a tensor have numbers, and lists of numbers, as long as nobody adds to them; the effects see more of a library's data
in them, so the kinds of values are asked. An array of objects, and a column of a table, give what they have, which may
be tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from tracelens.patch.effects import vocabulary
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.evidence import Evidence
from tracelens.patch.effects.holders import is_holder
from tracelens.patch.effects.implicit import is_loaded
from tracelens.patch.effects.kind import TENSOR
from tracelens.patch.effects.kinds import Kinds
from tracelens.patch.effects.memory import CLASS, PLAIN, Memory
from tracelens.patch.effects.objects import Activation, Container, Module, Name, Object, Thing, Unknown, is_thing
from tracelens.patch.effects.words import words


def may_hold_tensors(one: Object, memory: Memory, has_numbers: Callable[[Object], bool]) -> bool:
    """Whether an object may be a list or dict with tensors in it, or nobody can tell what it is.

    `has_numbers`: whether data of a library is a list that certainly has numbers only.
    """
    waiting, seen = [one], {one}
    while waiting:
        current = waiting.pop()
        if not isinstance(current, Container):
            data = is_thing(current, "data") and current is not one  # a tensor, or a list of such
            if (data and not has_numbers(current)) or _is_not_told(current):
                return True
            continue
        names = memory.fields.get(current, {})
        inside = {held for name, objects in names.items() if name != CLASS for held in objects} - seen
        seen |= inside
        waiting += inside
    return False


def _is_not_told(one: Object) -> bool:
    """Whether an object may be anything, or a part of what a library has."""
    if isinstance(one, Name) and one.receiver is not None:
        entry = vocabulary.lookup(one.full)
        return entry is None or entry.shares or entry.gives in ("weights", "held", "unknown")
    return isinstance(one, Unknown) or is_holder(one) or is_loaded(one)


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
