"""Lists, tuples and dicts whose content may be tensors: who keeps one for later has to copy the tensors as well.

In: an object that a value can stand for. Out: whether it may hold some. An object of a class, of the project or of a
library, is never copied: where the program runs, statements that keep one are not put off.
"""

from __future__ import annotations

from collections.abc import Callable

from tracelens.patch.effects import vocabulary
from tracelens.patch.effects.holders import is_holder
from tracelens.patch.effects.implicit import is_loaded
from tracelens.patch.effects.memory import CLASS, Memory
from tracelens.patch.effects.objects import Container, Name, Object, Unknown, is_thing


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
