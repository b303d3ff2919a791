"""What can be got out of a library's object: what it was made of, what was put in, and what that has in turn.

In: an object of a library that only holds others, or a part of one of which no more is known. Out: all that may come
out of it by a method, an index or an attribute. The unit that asks is looked at again when there is more.
"""

from __future__ import annotations

from tracelens.patch.effects.memory import ANY_KEY, DATA, MANY, NONE, PLAIN, SHARED, Memory, Objects, SeenFields, Unit
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
    found = memory.found(owner, _search, unit)
    if len(found) > MAX_BEHIND:
        memory.write(SHARED, ANY_KEY, found)
        return frozenset({MANY})
    return found


def _search(owner: Object, fields: SeenFields) -> Objects:
    """All that is behind an object; where that is too much, the holders and parts on the way as well."""
    out: dict[Object, None] = {}
    waiting = list(_inside(owner, fields))
    while waiting and len(out) <= MAX_BEHIND:
        one = waiting.pop()
        if one in out or one is owner or one is DATA or isinstance(one, Plain):
            continue
        out[one] = None
        waiting += _inside(one, fields)
    if len(out) > MAX_BEHIND:
        return frozenset(out)
    return frozenset(one for one in out if not is_holder(one) and not is_part(one))


def _inside(one: Object, fields: SeenFields) -> Objects:
    """What an object has itself."""
    while isinstance(one, Name) and one.receiver is not None:
        one = one.receiver
    if isinstance(one, Container) or (isinstance(one, Thing) and one.kind == "data"):
        names = tuple(name for name in fields.names(one) if name.startswith("[")) if one is not DATA else ()
    elif isinstance(one, (Instance, Thing)):
        names = tuple(name for name in fields.names(one) if name != "__class__")
    else:
        names = ()
    return NONE.union(*(fields.read(one, name) for name in names)) - {PLAIN}
