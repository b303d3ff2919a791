"""What can be got out of a library's object: what it was made of, what was put in, and what that has in turn.

In: an object of a library that only holds others, or a part of one of which no more is known. Out: all that may come
out of it by a method, an index or an attribute. The unit that asks is looked at again when there is more.
"""

from __future__ import annotations

from tracelens.patch.effects.memory import ANY_KEY, DATA, MANY, NONE, PLAIN, SHARED, Memory, Objects, Unit
from tracelens.patch.effects.objects import Container, Instance, Name, Object, Plain, Thing

MAX_BEHIND = 64
"""Objects behind one; where there are more it may be anything that unknown code has."""


def is_holder(one: Object) -> bool:
    """Whether nothing more is known of an object than what it may have."""
    return isinstance(one, Thing) and one.kind == "holder"


def is_part(one: Object) -> bool:
    """Whether an object is an attribute or a method of a library's object."""
    return isinstance(one, Name) and isinstance(one.receiver, Thing) and one.receiver.kind != "data"


def behind(owner: Object, memory: Memory, unit: Unit) -> Objects:
    """All that may come out of a holder or a part; nothing for other objects."""
    if not is_holder(owner) and not is_part(owner):
        return NONE
    out: dict[Object, None] = {}
    waiting = list(_inside(owner, memory, unit))
    while waiting:
        one = waiting.pop()
        if one in out or one is owner or one is DATA or isinstance(one, Plain):
            continue
        out[one] = None
        if len(out) > MAX_BEHIND:
            memory.write(SHARED, ANY_KEY, out)
            return frozenset({MANY})
        waiting += _inside(one, memory, unit)
    return frozenset(one for one in out if not is_holder(one) and not is_part(one))


def _inside(one: Object, memory: Memory, unit: Unit) -> Objects:
    """What an object has itself."""
    while isinstance(one, Name) and one.receiver is not None:
        one = one.receiver
    if isinstance(one, Container) or (isinstance(one, Thing) and one.kind == "data"):
        names = memory.keys(one, unit) if one is not DATA else ()
    elif isinstance(one, (Instance, Thing)):
        names = tuple(name for name in memory.names(one, unit) if name != "__class__")
    else:
        names = ()
    return NONE.union(*(memory.read(one, name, unit) for name in names)) - {PLAIN}
