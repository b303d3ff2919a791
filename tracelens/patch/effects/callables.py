"""What a library may call of what it is handed: functions, methods of objects, and functions with arguments of theirs.

In: an object. Out: whether a call of it does something. Apart because four modules have to mean the same by a function.
"""

from __future__ import annotations

from tracelens.patch.effects import vocabulary
from tracelens.patch.effects.memory import is_tensor
from tracelens.patch.effects.objects import (
    CLOCK,
    COLLECTIVE,
    DISK_READ,
    DISK_WRITE,
    OUTPUT,
    RANDOM,
    Class,
    Container,
    Function,
    Method,
    Name,
    Object,
    Thing,
)

PARTIAL = "partial"
CALLER, PICKER = "caller", "picker"
"""What `operator.methodcaller("f")` and `operator.attrgetter("a")` give: they run code of what they are handed."""
_LOUD = frozenset({OUTPUT, DISK_READ, DISK_WRITE, RANDOM, CLOCK, COLLECTIVE})


def is_picker(one: Object) -> bool:
    """Whether an object, when it is called, gives a part of what it is handed."""
    return isinstance(one, Thing) and one.kind == PICKER


def is_function(one: Object) -> bool:
    """Whether an object is there to be called, and others can notice the call."""
    known = isinstance(one, (Function, Method, Class)) or is_partial(one) or is_bound(one)
    return known or _is_loud(one) or (isinstance(one, Thing) and one.kind in (CALLER, PICKER))


def is_unknown_function(one: Object) -> bool:
    """Whether an object that is called is a function of which nobody knows anything: `natsort.natsort_key`."""
    if not isinstance(one, Name) or one.receiver is not None or "." not in one.full:
        return False
    return vocabulary.lookup(one.full) is None and not vocabulary.is_module(one.full)


def is_partial(one: Object | None) -> bool:
    """Whether an object is a function with some of its arguments: `functools.partial(f, kept)`."""
    return isinstance(one, Thing) and one.kind == PARTIAL


def is_bound(one: Object) -> bool:
    """Whether an object is a method of a list or of an array that is told apart: `kept.append`."""
    return isinstance(one, Name) and (isinstance(one.receiver, Container) or is_tensor(one.receiver))


def _is_loud(one: Object) -> bool:
    """Whether an object is a library's function of which the vocabulary says that others notice it: `print`."""
    if not isinstance(one, Name) or one.receiver is not None or not vocabulary.knows(one.full):
        return False
    entry = vocabulary.lookup(one.full)
    return entry is not None and not _LOUD.isdisjoint(entry.does)
