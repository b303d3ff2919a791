"""What is computed of clocks, and where it is shown: a duration that people read must keep what it has in it.

In: objects of expressions. Out: `Moment`s and `Duration`s among them, each with the places that read the clock.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import pairwise

from tracelens.patch.effects.memory import NONE, Memory, Objects
from tracelens.patch.effects.objects import SHOWS, Container, Duration, Effect, Moment, Object
from tracelens.patch.effects.places import position

_NEED_NO_CLOCK = {
    "time.strftime": 2,
    **dict.fromkeys(("time.ctime", "time.asctime", "time.localtime", "time.gmtime"), 1),
}
"""With so many arguments."""


def is_given_time(full: str, count: int) -> bool:
    """Whether a function that tells the time of day tells that of its arguments."""
    return count >= _NEED_NO_CLOCK.get(full, count + 1)


def is_timed(one: Object) -> bool:
    return isinstance(one, (Moment, Duration))


def timed(objects: Iterable[Object], memory: Memory) -> Objects:
    """The moments and durations among the objects, and in lists and dicts among them."""
    out, waiting, seen = set[Object](), list(objects), set[Object]()
    while waiting:
        one = waiting.pop()
        if is_timed(one):
            out.add(one)
        elif isinstance(one, Container) and one not in seen:
            seen.add(one)
            fields = memory.fields.get(one, {})
            waiting += [held for name, inside in fields.items() if name.startswith("[") for held in inside]
    return frozenset(out)


def computed(left: Objects, operator: type[ast.operator], right: Objects, node: ast.AST, memory: Memory) -> Objects:
    """What of clocks is in `left + right`, a computation at `node`."""
    out = {one for one in (*left, *right) if isinstance(one, Duration)}
    starts, ends = _moments(right), _moments(left)
    if operator is ast.Sub and (starts or ends):
        places = [(last, first) for last in ends or [node] for first in starts or [node]]
        return frozenset(out | {memory.make(Duration, first, last) for last, first in places})
    return frozenset(out | {one for one in (*left, *right) if isinstance(one, Moment)})


def _moments(objects: Objects) -> list[ast.AST]:
    """The places that read the clocks."""
    return [one.read for one in objects if isinstance(one, Moment)]


def shown(objects: Iterable[Object], memory: Memory) -> Iterable[Effect]:
    """The effects of showing the objects to people, who see a duration where two moments are among them."""
    times = timed(objects, memory)
    moments = sorted({one.read for one in times if isinstance(one, Moment)}, key=position)
    pairs = (memory.make(Duration, first, last) for first, last in pairwise(moments))
    return (Effect(SHOWS, one) for one in (*(one for one in times if isinstance(one, Duration)), *pairs))


def decided(left: Objects, right: Objects, node: ast.AST, memory: Memory) -> Iterable[Effect]:
    """The effects of a comparison that a duration decides, as a deadline does: it counts as shown."""
    between = computed(left, ast.Sub, right, node, memory)
    return shown((one for one in between if isinstance(one, Duration)), memory)


def only_timed(objects: Objects) -> Objects:
    return frozenset(filter(is_timed, objects)) if objects else NONE
