"""What functions are handed that a library runs in a process of their own: `mp.spawn(worker, args=(world, settings))`.

In: the call. Out: what it gives. Each parameter gets its own argument; where nobody can tell which, each gets all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracelens.patch.effects.dispatch import HELD, Arguments
from tracelens.patch.effects.library_calls import LibraryCall
from tracelens.patch.effects.memory import ANY_KEY, ELSEWHERE, NONE, PLAIN, Objects
from tracelens.patch.effects.objects import Container


def _spawn(call: LibraryCall) -> Objects:
    """`torch.multiprocessing.spawn(function, args)`: the function is called with the number of its process first."""
    given = call.given
    functions = given.named.get("fn", given.positional[0] if given.positional else given.rest)
    packed = given.named.get("args", given.positional[1] if len(given.positional) > 1 else NONE)
    parts, more = _unpacked(call, packed)
    if "join" in given.named or len(given.positional) > 3 or given.rest:  # it may run beside its caller
        call.memory.write(ELSEWHERE, HELD, given.objects)
    call.dispatch.invoke(functions, Arguments((frozenset({PLAIN}), *parts), rest=more | given.rest), call.here)
    return frozenset({PLAIN})


def _unpacked(call: LibraryCall, packed: Objects) -> tuple[tuple[Objects, ...], Objects]:
    """The elements of a tuple by their places; of anything else, all of them in any place."""
    if len(packed) == 1 and isinstance(one := next(iter(packed)), Container):
        names = call.memory.keys(one, call.here.unit)
        numbered = [name for name in names if name[1:-1].isdigit()]
        call.memory.read(one, ANY_KEY, call.here.unit)
        if not call.memory.has(one, ANY_KEY) and {*names} - {ANY_KEY} == {*numbered}:
            ordered = sorted(numbered, key=lambda name: int(name[1:-1]))
            return tuple(call.dispatch.elements(one, name, call.here) for name in ordered), NONE
    return (), call.dispatch.passes(packed, call.here)


CALLS: Mapping[str, Callable[[LibraryCall], Objects]] = {"torch.multiprocessing.spawn": _spawn}
