"""The classes of a project: what each is made of, and which of them defines a name.

In: `Memory`, in which the bases of each class are fields. Out: the order in which Python looks a name up. Bases may
be classes of the project, of a library (by the vocabulary's word for their objects), or unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tracelens.patch.effects import vocabulary
from tracelens.patch.effects.memory import BASES, Memory, Unit
from tracelens.patch.effects.objects import Class, Function, Instance, Name, Object, Thing, Unknown, is_thing
from tracelens.patch.effects.places import last_name

MAX_BASES = 64
"""Classes that one is made of; there are never so many, but a wrong guess could go in circles."""
_PLAIN_BASES = (
    "builtins.object abc.ABC abc.ABCMeta typing.Protocol typing.Generic typing_extensions.Protocol enum.Enum"
    " enum.IntEnum enum.StrEnum builtins.type builtins.str builtins.int builtins.float"
)
_CONTAINERS = (
    "builtins.dict builtins.list builtins.set builtins.tuple collections.OrderedDict collections.UserDict"
    " collections.defaultdict collections.deque collections.UserList collections.Counter typing.NamedTuple"
    " typing.TypedDict typing_extensions.NamedTuple typing_extensions.TypedDict"
)
_ABSTRACT = ("collections.abc.", "typing.Mutable")
KINDS_OF_BASES = {"torch.autograd.Function": "autograd", "torch.autograd.function.Function": "autograd"}


def order(made: Class, memory: Memory, unit: Unit) -> tuple[Object, ...]:
    """The class and its bases, the nearest first; a base that several have comes after all of them."""
    known = memory.orders.get(made)
    if known is None or known[0] != memory.changed_bases:
        known = memory.orders[made] = (memory.changed_bases, _order(made, memory, unit))
    return known[1]


def _order(made: Class, memory: Memory, unit: Unit) -> tuple[Object, ...]:
    found: list[Object] = []
    waiting: list[tuple[Object, ...]] = [(made,)]
    """Classes with those that are made of them: one whose base's name comes to mean itself is no base of its own."""
    looked_at = 0
    while waiting and looked_at < MAX_BASES**2:
        path = waiting.pop(0)
        current, looked_at = path[0], looked_at + 1
        if current in found:
            found.remove(current)
        found.append(current)
        if isinstance(current, Class) and len(found) < MAX_BASES:
            bases = [memory.read(current, f"{BASES}{number}", unit) for number in range(len(current.node.bases))]
            waiting = [(base, *path) for several in bases for base in several if base not in path] + waiting
    return tuple(found)


def kinds(made: Class, memory: Memory, unit: Unit) -> Iterator[str]:
    """The vocabulary's words for what the libraries' bases of a class are; "" for an unknown one."""
    for base in order(made, memory, unit):
        if isinstance(base, Name):
            kind = kind_of(base)
            if kind is None or kind:
                yield kind or ""
        elif isinstance(base, Thing):  # `namedtuple("Point", "x y")`
            yield "list" if base.kind == "holder" else ""
        elif isinstance(base, Unknown):
            yield ""


def kind_of(base: Name) -> str | None:
    """The word for the objects of a library's class; "" for one without behaviour, None for an unknown one."""
    if base.full in _PLAIN_BASES.split() or base.full.endswith(("Error", "Exception", "Warning")):
        return ""
    if base.full in _CONTAINERS.split() or base.full.startswith(_ABSTRACT):
        return "list"
    if base.full in KINDS_OF_BASES:
        return KINDS_OF_BASES[base.full]
    entry = vocabulary.lookup(base.full)
    if entry is None or entry.gives == "unknown":
        return None
    return entry.gives[1:-1] if entry.gives.startswith("<") else "data"


def is_of_kind(one: object, kind: str, memory: Memory, unit: Unit) -> bool:
    """Whether it is a library's object of that kind, or one of a class of the project that is made of such a class."""
    return is_thing(one, kind) or (isinstance(one, Instance) and kind in kinds(one.made, memory, unit))


def methods(made: Class, memory: Memory, unit: Unit) -> Iterator[str]:
    """The names of the methods that a class and its bases in the project define."""
    for base in order(made, memory, unit):
        if isinstance(base, Class):
            yield from (
                part.name for part in base.node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
            )


def marks(function: Function) -> frozenset[str]:
    """The last names of a function's decorators: `property`, `staticmethod`, `setter` …"""
    decorators = getattr(function.node, "decorator_list", ())
    return frozenset(last_name(one.func if isinstance(one, ast.Call) else one) for one in decorators)
