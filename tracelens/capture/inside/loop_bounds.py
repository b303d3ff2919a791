"""How many iterations the script's loops still have, read from the source of the loops that are running.

In: a frame of the user's code, and the DataLoaders' iterators that are in use. Out: numbers of iterations, None where
a loop does not say its length. Only reads values that exist (names, attributes, `len`), calls nothing of the user's
but `__len__`, so the script cannot notice. Apart because it is a guess: it may shrink a plan that would not fit, and
nothing else depends on it.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from tracelens.capture.inside import process_facts
from tracelens.capture.inside.frame_values import UnknownValue, integer, length, value
from tracelens.capture.inside.loop_counters import Key, counters, turns
from tracelens.capture.inside.user_frames import is_users

FRAMES = 60
"""A framework's training loop lies within so many frames of the optimizer's step."""
LONGEST_SOURCE = 20_000
"""Lines; parsing takes about 10 ms per thousand, once."""
MOST_LOOKED_THROUGH = 100_000
"""Elements of a list among which the current one is looked for: a millisecond."""
FEWEST_IN_EPOCH = 20
"""Where only the end of this epoch can be told: a shorter one is one of many."""

_PASSING_ON = ("enumerate", "tqdm", "trange", "track", "zip", "prefetch", "iter")
"""Functions that hand on as many values as they are given; `DataLoader(rows)` does not."""
_LISTS = (list, tuple)
_Node = ast.For | ast.AsyncFor | ast.While


@dataclass(frozen=True)
class _LoopProgress:
    left: int
    length: int
    loads: bool = False
    """Told by a DataLoader's iterator."""


@dataclass(frozen=True)
class BlockEntry:
    """Where a recording was begun inside the script: loops around that place go on after it, and do not count."""

    code: CodeType
    line: int


@dataclass(frozen=True)
class RemainingIterations:
    """What can be told at one moment. Moments that lie a step apart say how many steps that is: `steps`."""

    total: int | None = None
    """Iterations of the innermost loop, over all the loops around it."""
    epoch: int | None = None
    """Only those up to the first loop that does not tell."""
    counters: Mapping[Key, int] = field(default_factory=dict)
    """How far the counters are from ending a loop."""

    def steps(self, before: RemainingIterations) -> int | None:
        """Steps that are left, where `before` was seen one step ago."""
        pairs = [(before.total, self.total), *((before.counters.get(key), at) for key, at in self.counters.items())]
        ends = [left for first, last in pairs if (left := _steps(first, last)) is not None]
        if ends:
            return min(ends)
        epoch = _steps(before.epoch, self.epoch)
        return epoch if epoch is not None and epoch >= FEWEST_IN_EPOCH else None


def iterations(frame: FrameType | None, block: BlockEntry | None = None, live: Sequence[Any] = ()) -> int | None:
    """Iterations of the innermost loop that are still to come, over all the loops around it; None where unknown."""
    return look(frame, block, live).total


def look(frame: FrameType | None, block: BlockEntry | None = None, live: Sequence[Any] = ()) -> RemainingIterations:
    """Everything that the running loops say; `live`: iterators of DataLoaders, the last one first.

    Counts the loops inside `block` only, if there is one.
    """
    loops: list[_LoopProgress | None] = []
    found: dict[Key, int] = {}
    for at, node in _running(frame, block):
        found |= counters(node, at)
        loops.append(_told(node, at, live, innermost=not loops))
    loader = _loader(live)
    if not loops or loops[0] is None:
        return RemainingIterations(epoch=None if loader is None else loader.left, counters=found)
    if loops[0].loads and any(loop is not None and loop.loads for loop in loops[1:]):  # it was another one's
        return RemainingIterations(counters=found)
    left, inner = 0, 1
    for loop in loops:
        if loop is None:
            return RemainingIterations(None, left, found)
        left += loop.left * inner
        inner *= max(1, loop.length)
    return RemainingIterations(left, left, found)


def _steps(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or before <= now else now // (before - now)


def _running(frame: FrameType | None, block: BlockEntry | None) -> Iterator[tuple[FrameType, _Node]]:
    """The loops of the script around its current line, innermost first."""
    for _ in range(FRAMES):
        if frame is None:
            return
        code = frame.f_code
        last = block is not None and code is block.code
        if is_users(code):
            for node in _around(code.co_filename, code.co_firstlineno, code.co_name, frame.f_lineno):
                if not (last and block and node.lineno <= block.line):
                    yield frame, node
        if last:
            return
        frame = frame.f_back


@lru_cache(maxsize=64)
def _around(path: str, first: int, function: str, line: int) -> tuple[_Node, ...]:
    lines = linecache.getlines(path)
    if not lines or len(lines) > LONGEST_SOURCE:
        return ()
    try:
        scope: ast.AST = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    if function != "<module>":
        named = [node for node in ast.walk(scope) if getattr(node, "name", None) == function and _starts(node, first)]
        if not named:
            return ()
        scope = named[0]
    loops: list[_Node] = []
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and _holds(node.body, line):
            loops.append(node)
        pending += ast.iter_child_nodes(node)
    return tuple(sorted(loops, key=lambda loop: -loop.lineno))


def _starts(node: ast.AST, first: int) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return first in {getattr(node, "lineno", None), *(decorator.lineno for decorator in decorators)}


def _holds(body: list[ast.stmt], line: int) -> bool:
    return body[0].lineno <= line <= (body[-1].end_lineno or 0)


def _told(node: _Node, frame: FrameType, live: Sequence[Any], *, innermost: bool) -> _LoopProgress | None:
    """What one loop says; None: nothing."""
    if isinstance(node, ast.While):
        left = turns(node, frame)
        return None if left is None else _LoopProgress(left, left + 1)
    try:
        return _measure(node, frame, live, sure=innermost)
    except UnknownValue:
        return _loader(live) if innermost else None


def _measure(node: ast.For | ast.AsyncFor, frame: FrameType, live: Sequence[Any], *, sure: bool) -> _LoopProgress:
    """`sure`: a loop that does not say where it is counts as unknown, not as one that has just begun."""
    iterable, index, first = node.iter, None, 0
    if isinstance(iterable, ast.Call):
        name = _name(iterable)
        if name == "range" and iterable.args and not iterable.keywords:
            return _ranged(range(*(integer(argument, frame) for argument in iterable.args)), node.target, frame)
        if not iterable.args or name not in _PASSING_ON:
            raise UnknownValue
        if name == "trange":
            return _ranged(range(integer(iterable.args[0], frame)), node.target, frame)
        if name == "enumerate" and isinstance(node.target, ast.Tuple):
            index = node.target.elts[0]
            first = _first_number(iterable, frame)
        iterable = iterable.args[0]
        if isinstance(iterable, ast.Call) and _name(iterable) in _PASSING_ON and iterable.args:  # enumerate(tqdm(x))
            iterable = iterable.args[0]
    looped = value(iterable, frame)
    known = length(looped)
    if index is not None and (after := _after(range(first, first + known), index, frame)) is not None:
        return _LoopProgress(after, known)
    if (after := _found_in(looped, node.target, frame)) is not None:
        return _LoopProgress(after, known)
    for iterator in sorted(live, key=lambda one: not _feeds(one, looped)):
        if known > iterator._num_yielded and (_feeds(iterator, looped) or process_facts.length(iterator) == known):
            return _LoopProgress(known - iterator._num_yielded, known, loads=True)
    if sure:
        raise UnknownValue
    return _LoopProgress(known, known)


def _ranged(numbers: range, target: ast.expr, frame: FrameType) -> _LoopProgress:
    after = _after(numbers, target, frame)
    return _LoopProgress(len(numbers) if after is None else after, len(numbers))


def _feeds(iterator: Any, looped: Any) -> bool:
    """`iterator` was made by the DataLoader `looped`: they share what chooses the rows."""
    sampler = getattr(iterator, "_index_sampler", None)
    return sampler is not None and sampler is getattr(looped, "_index_sampler", None)


def _loader(live: Sequence[Any]) -> _LoopProgress | None:
    """The loop over the DataLoader that was begun last."""
    for iterator in live[:1]:
        known = process_facts.length(iterator)
        if known is not None and known > iterator._num_yielded:
            return _LoopProgress(known - iterator._num_yielded, known, loads=True)
    return None


def _found_in(looped: Any, target: ast.expr, frame: FrameType) -> int | None:
    """Elements of a list that follow the current one; None where it is not there, or there twice."""
    if type(looped) not in _LISTS or len(looped) > MOST_LOOKED_THROUGH:
        return None
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    try:
        current = [value(part, frame) for part in parts]
    except UnknownValue:
        return None
    one = isinstance(target, ast.Name)
    places = [at for at, element in enumerate(looped) if _is(element, current, one=one)]
    return len(looped) - 1 - places[0] if len(places) == 1 else None


def _is(element: Any, current: list[Any], *, one: bool) -> bool:
    if one:
        return element is current[0]
    if type(element) not in _LISTS or len(element) != len(current):
        return False
    return all(own is other for own, other in zip(element, current, strict=True))


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _first_number(call: ast.Call, frame: FrameType) -> int:
    """Where `enumerate` begins to count."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "start")]
    return integer(given[0], frame) if given else 0


def _after(numbers: range, target: ast.expr, frame: FrameType) -> int | None:
    """How many of `numbers` follow the loop variable's value; None where it has no such value."""
    current = frame.f_locals.get(target.id) if isinstance(target, ast.Name) else None
    if isinstance(current, int) and current in numbers:
        return len(numbers) - 1 - numbers.index(current)
    return None
