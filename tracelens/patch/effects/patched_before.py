"""The helpers that an earlier patch put into the project: what their calls do to the loop that they were written into.

In: a call of `tracelens_runtime`. Out: the objects that it gives. What was deferred counts as if it ran where it is
handed over: the earlier patch has shown that nothing in between sees the difference, and when its loop has ended,
nothing waits any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tracelens.patch.effects.dispatch import Arguments
from tracelens.patch.effects.helper_file import RUNTIME
from tracelens.patch.effects.library_calls import LibraryCall
from tracelens.patch.effects.memory import DATA, NONE, PLAIN, Objects
from tracelens.patch.effects.objects import CLOCK, Effect, Moment, Thing

_KIND = "deferred reads"


def _made(call: LibraryCall) -> Objects:
    return frozenset({call.memory.make(Thing, _KIND, call.here.node, call.here.maker)})


def _iterated(call: LibraryCall) -> Objects:
    """Going through it is going through what it is given; `shows` is asked after each batch."""
    over, *asked = (*call.given.positional, call.given.named.get("shows", NONE))
    for function in asked:
        call.dispatch.invoke(function, Arguments((frozenset({PLAIN}),)), call.here)
    return over


def _run(call: LibraryCall) -> Objects:
    """`defer(statements, *values)`, `iterate_while(condition)`, `tick(clock)`."""
    function, *values = call.given.positional or (NONE,)
    call.dispatch.invoke(function, Arguments(tuple(values), rest=call.given.rest), call.here)
    return frozenset({PLAIN})


def _timed(call: LibraryCall) -> Objects:
    call.memory.effect(call.here.unit, call.here.node, Effect(CLOCK))
    return _run(call) | {call.memory.make(Moment, call.here.node)}


def _number(call: LibraryCall) -> Objects:
    """A number that is read later; what is no tensor comes back as it is."""
    return NONE.union({PLAIN}, *call.given.positional[:1])


def _array(_: LibraryCall) -> Objects:
    return frozenset({DATA})


def _nothing(_: LibraryCall) -> Objects:
    return frozenset({PLAIN})


def _first_argument(call: LibraryCall) -> Objects:
    """`prefetch(loader, device)`: going through it is going through the loader."""
    return NONE.union(*call.given.positional[:1])


_METHODS: Mapping[str, Callable[[LibraryCall], Objects]] = {
    "iterate": _iterated,
    **dict.fromkeys(("iterate_while", "defer"), _run),
    "tick": _timed,
    **dict.fromkeys(("item", "elapsed"), _nothing),
    **dict.fromkeys(("number", "formatted"), _number),
    **dict.fromkeys(("tolist", "numpy", "host", "values"), _array),
    **dict.fromkeys(("record", "synchronize", "leave", "drain", "read_due"), _nothing),
}
CALLS: Mapping[str, Callable[[LibraryCall], Objects]] = {
    **dict.fromkeys((f"{RUNTIME}.prefetch", "tracelens.runtime.prefetch"), _first_argument),
    **dict.fromkeys((f"{RUNTIME}.DeferredReads", "tracelens.runtime.DeferredReads"), _made),
    **{f"<{_KIND}>.{name}": does for name, does in _METHODS.items()},
}
