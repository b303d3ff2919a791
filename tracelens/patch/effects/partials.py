"""`functools.partial(f, …)`: a call of it is a call of `f` with these arguments and those of the call.

In: the call that makes one, or a call of one. Out: the objects that it gives. Who has it can look at all of it.
"""

from __future__ import annotations

from tracelens.patch.effects.callables import PARTIAL, is_partial
from tracelens.patch.effects.dispatch import HELD, Arguments, Dispatch, Here
from tracelens.patch.effects.memory import NONE, Memory, Objects
from tracelens.patch.effects.objects import Object, Thing

_FUNCTION, _REST, _POSITIONAL, _NAMED = "<function>", "<rest>", "<argument>", "<named>"


def made(given: Arguments, memory: Memory, here: Here) -> Objects:
    """The object that `partial(f, …)` gives."""
    thing = memory.make(Thing, PARTIAL, here.node, here.maker)
    function, *positional = given.positional or (given.rest,)
    memory.write(thing, HELD, given.objects)
    memory.write(thing, _FUNCTION, function)
    memory.write(thing, _REST, given.rest)
    for number, value in enumerate(positional):
        memory.write(thing, f"{_POSITIONAL}{number:02}", value)
    for name, value in given.named.items():
        memory.write(thing, f"{_NAMED}{name}", value)
    return frozenset({thing})


def called(thing: Object, given: Arguments, dispatch: Dispatch, here: Here) -> Objects:
    """What a call of it gives; one that has itself, by a loop, is followed around once."""
    out = NONE
    waiting, seen = [(thing, given)], set[Object]()
    while waiting:
        one, handed = waiting.pop()
        bound = _bound(one, handed, dispatch.memory, here)
        if one in seen:
            bound = Arguments(rest=bound.objects)
        functions = dispatch.memory.read(one, _FUNCTION, here.unit)
        inner = frozenset(filter(is_partial, functions))
        out |= dispatch.invoke(functions - inner, bound, here)
        waiting += [] if one in seen else [(other, bound) for other in inner]
        seen.add(one)
    return out


def _bound(thing: Object, given: Arguments, memory: Memory, here: Here) -> Arguments:
    """All that its function is handed: its own arguments first, by position; a name of the call wins."""
    names = sorted(memory.names(thing, here.unit))
    own = {name: memory.read(thing, name, here.unit) for name in names}
    positional = tuple(value for name, value in own.items() if name.startswith(_POSITIONAL))
    named = {name.removeprefix(_NAMED): value for name, value in own.items() if name.startswith(_NAMED)}
    rest = own.get(_REST, NONE)
    if rest:  # how many there are is not known: those of the call can be anywhere behind
        return Arguments(positional, {**named, **given.named}, rest.union(given.rest, *given.positional))
    return Arguments((*positional, *given.positional), {**named, **given.named}, given.rest)
