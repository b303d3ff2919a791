"""What can be got out of a library's object: what it was made of, what was put in, and what that has in turn.

In: an object of a library that only holds others, or a part of one of which no more is known. Out: all that may come
out of it by a method, an index or an attribute. The unit that asks is looked at again when there is more.
"""

from __future__ import annotations

from tracelens.patch.effects.closures import Search
from tracelens.patch.effects.memory import (
    ANY_KEY,
    CLASS,
    DATA,
    IN_PLACE_LAYER,
    KEYS,
    LAYER,
    MANY,
    NONE,
    PLAIN,
    SHARED,
    Memory,
    Objects,
    SeenFields,
    Unit,
    is_tensor,
)
from tracelens.patch.effects.objects import Container, Instance, Name, Object, Plain, Thing, Unknown

HELD = "<held>"
AS_DICT = "<dict>"
"""The maker of the dict that has an object's attributes."""
SETTINGS = "settings"
"""What the parser of a command line gives, or a namespace: its attributes are what the project says of them."""
MODULES = "<modules>"
"""The maker of torch's lists of modules. Those that one class makes are one object: its `forward` goes through them
all, and what they are told apart by is their weights, which are one object anyway."""


def is_holder(one: Object) -> bool:
    """Whether nothing more is known of an object than what it may have."""
    return isinstance(one, Thing) and one.kind == "holder"


def owner_of(stored_in: Object) -> Object:
    """The object that changes when a part of a library's object does: `layer.weight.data[0] = 1` changes the layer."""
    while isinstance(stored_in, Name) and isinstance(stored_in.receiver, (Thing, Name)):
        stored_in = stored_in.receiver
    return stored_in


def named_by(one: Object | None) -> Object | None:
    """The object whose attributes a dict has: `vars(object)`."""
    is_dict = isinstance(one, Container) and one.maker == AS_DICT and isinstance(one.site, Object)
    return one.site if isinstance(one, Container) and is_dict and isinstance(one.site, Object) else None


def is_settings(one: Object) -> bool:
    """Whether an object has attributes of which the project says what they are."""
    return isinstance(one, Thing) and one.kind == SETTINGS


def is_torch_module(one: Object | None) -> bool:
    """Whether an object is a layer of torch, or a list of modules: it has no attributes but torch's and its parts."""
    return one is LAYER or one is IN_PLACE_LAYER or (isinstance(one, Thing) and one.maker == MODULES)


def is_part(one: Object) -> bool:
    """Whether an object is an attribute or a method of a library's object."""
    return isinstance(one, Name) and isinstance(one.receiver, Thing) and one.receiver.kind != "data"


def behind(owner: Object, memory: Memory, unit: Unit) -> Objects:
    """All that may come out of a holder or a part; nothing for other objects."""
    if not is_holder(owner) and not is_part(owner):
        return NONE
    made_by_torch = owner.receiver if isinstance(owner, Name) and is_torch_module(owner.receiver) else None
    if made_by_torch is not None:
        return memory.found(made_by_torch, _CHILDREN, unit)
    found = memory.found_first(owner, _search, unit)
    if len(found) > memory.limits.held:  # it may be anything that unknown code has
        memory.write(SHARED, ANY_KEY, found)
        return frozenset({MANY})
    return found


def _search(owner: Object, fields: SeenFields) -> Objects:
    """All that is behind an object; where that is too much, the holders and parts on the way as well."""
    out: dict[Object, None] = {}
    waiting = list(_inside(owner, fields))
    most = fields.memory.limits.held
    while waiting and len(out) <= most:
        one = waiting.pop()
        if one in out or one is owner or one is DATA or isinstance(one, Plain):
            continue
        out[one] = None
        waiting += _inside(one, fields)
    if len(out) > most:
        return frozenset(out)
    return frozenset(one for one in out if not is_holder(one) and not is_part(one))


def _inside(one: Object, fields: SeenFields) -> Objects:
    """What an object has itself."""
    while isinstance(one, Name) and one.receiver is not None:
        one = one.receiver
    if isinstance(one, Container) or (isinstance(one, Thing) and one.kind == "data"):
        names = tuple(name for name in fields.names(one) if name.startswith("[") or name == KEYS)
        names = names if one is not DATA else ()
    elif isinstance(one, (Instance, Thing)):
        names = tuple(name for name in fields.names(one) if name != CLASS)
    else:
        names = ()
    return NONE.union(*(fields.read(one, name) for name in names)) - {PLAIN}


def modules_in(owner: Object, memory: Memory, unit: Unit) -> Objects:
    """A module and all that may be a part of it: what can be reached from it through attributes and lists."""
    return memory.found(owner, _MODULES, unit)


def _is_of_modules(one: Object) -> bool:
    return isinstance(one, (Instance, Thing, Container, Unknown, Name)) and one is not DATA


_MODULES = Search(
    lambda owner, name: _is_of_modules(owner) and name != CLASS,
    lambda one: _is_of_modules(one) and not isinstance(one, Container) and not is_tensor(one),
)
_CHILDREN = Search(
    lambda owner, name: (isinstance(owner, Container) or is_torch_module(owner)) and name != CLASS,
    lambda one: not isinstance(one, Plain) and one is not DATA and not _leads_on(one),
)


def _leads_on(one: Object) -> bool:
    """Whether it is asked in turn what is behind an object."""
    return is_holder(one) or is_part(one) or is_torch_module(one)
