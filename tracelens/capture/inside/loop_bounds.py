"""How many iterations the script's running loops still have, read from their source and their frames.

In: a frame that was called from the loop, and the iterators of the DataLoaders in use. Out: numbers of iterations, None
where they X
Read are loops over `range`, `enumerate` and DataLoaders, and counters that end a loop (`loop_counters`).
docs/capture.md has the count of loops in public scripts by which these forms were chosen.
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
from tracelens.capture.inside.loop_counters import CounterKey, counters
from tracelens.capture.inside.user_frames import is_users

MOST_FRAMES = 60
"""Frames that are searched: a framework's training loop lies within so many of the optimizer's step."""
LONGEST_SOURCE = 20_000
"""Lines of a file that is parsed, once; parsing takes about 10 ms per thousand."""
FEWEST_IN_EPOCH = 20
"""Where only the rest of the epoch is known, a shorter rest says nothing: more epochs probably follow."""

_PASSING_ON = ("tqdm", "track", "zip", "prefetch")
"""Functions that yield one value per value of their first argument; `prefetch` is the one of patched scripts."""
_Loop = ast.For | ast.While


@dataclass(frozen=True)
class BlockEntry:
    """The place in the script where it began a recording itself: loops around that place go on after it."""

    code: CodeType
    line: int


@dataclass(frozen=True)
class RemainingIterations:
    """What is known at one moment. Two moments that lie a step apart give the number of steps: `steps`."""

    total: int | None = None
    """Iterations of the innermost loop that follow, over all the loops around it."""
    epoch: int | None = None
    """Those that follow before the innermost loop of unknown length goes on."""
    counters: Mapping[CounterKey, int] = field(default_factory=dict)
    """Distance of each counter from the value that ends its loop."""

    def steps(self, before: RemainingIterations) -> int | None:
        """Steps that follow, where `before` was taken one step ago; None where that is unknown."""
        pairs = [(before.total, self.total), *((before.counters.get(key), at) for key, at in self.counters.items())]
        ends = [left for first, last in pairs if (left := _steps(first, last)) is not None]
        if ends:
            return min(ends)
        epoch = _steps(before.epoch, self.epoch)
        return epoch if epoch is not None and epoch >= FEWEST_IN_EPOCH else None


@dataclass(frozen=True)
class _LoopProgress:
    left: int
    length: int


def remaining_iterations(
    frame: FrameType | None, block: BlockEntry | None = None, iterators: Sequence[Any] = ()
) -> RemainingIterations:
    """What the loops around `frame` tell, those inside `block` only if there is one.

    `iterators`: those of the DataLoaders in use, the most recently started one first. It counts for the innermost `for`
    loop that has no index.
    """
    loops: list[_LoopProgress | None] = []
    distances: dict[CounterKey, int] = {}
    newest = unclaimed = _loader_progress(iterators)
    for at, node in _running_loops(frame, block):
        distances |= counters(node, at)
        progress = _index_progress(node, at)
        if progress is None and isinstance(node, ast.For):
            progress, unclaimed = unclaimed, None
        loops.append(progress)
    if not loops or loops[0] is None:
        return RemainingIterations(epoch=None if newest is None else newest.left, counters=distances)
    left, inner = 0, 1
    for loop in loops:
        if loop is None:
            return RemainingIterations(None, left, distances)
        left += loop.left * inner
        inner *= max(1, loop.length)
    return RemainingIterations(left, left, distances)


def _steps(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None or before <= now else now // (before - now)


# ---------------------------------------------------------------------------------------------- which loops are running


def _running_loops(frame: FrameType | None, block: BlockEntry | None) -> Iterator[tuple[FrameType, _Loop]]:
    """The loops of the script around its current line, innermost first."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        last = block is not None and code is block.code
        if is_users(code):
            for node in _loops_around(code.co_filename, code.co_firstlineno, code.co_name, frame.f_lineno):
                if not (last and block and node.lineno <= block.line):
                    yield frame, node
        if last:
            return
        frame = frame.f_back


@lru_cache(maxsize=64)
def _loops_around(path: str, first: int, function: str, line: int) -> tuple[_Loop, ...]:
    """The loops around `line` in the function whose code begins at line `first`, innermost first."""
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
    loops: list[_Loop] = []
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, (ast.For, ast.While)) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            loops.append(node)
        pending += ast.iter_child_nodes(node)
    return tuple(sorted(loops, key=lambda loop: -loop.lineno))


def _starts(node: ast.AST, first: int) -> bool:
    """Whether the code of this definition begins at line `first`: a decorator's line counts as well."""
    decorators = getattr(node, "decorator_list", [])
    return first in {getattr(node, "lineno", None), *(decorator.lineno for decorator in decorators)}


# ------------------------------------------------------------------------------------------------- how far one loop is


def _index_progress(node: _Loop, frame: FrameType) -> _LoopProgress | None:
    """By the variable of a loop over `range`, or the index of one over `enumerate`; None for any other loop."""
    if isinstance(node, ast.While):
        return None
    try:
        numbers, index = _numbers(node.iter, node.target, frame)
    except UnknownValue:
        return None
    current = frame.f_locals.get(index.id) if isinstance(index, ast.Name) else None
    if not isinstance(current, int) or current not in numbers:
        return None
    return _LoopProgress(len(numbers) - 1 - numbers.index(current), len(numbers))


def _numbers(iterable: ast.expr, target: ast.expr, frame: FrameType) -> tuple[range, ast.expr]:
    """The numbers that an index takes, and the index; raises `UnknownValue` where the loop has none."""
    if isinstance(iterable, ast.Call) and iterable.args:
        function = _name(iterable)
        if _is_range(iterable):
            return _range(iterable, frame), target
        if function == "trange":
            return range(integer(iterable.args[0], frame)), target
        if function == "enumerate" and isinstance(target, ast.Tuple):
            first = _first_number(iterable, frame)
            return range(first, first + _length(_unwrapped(iterable.args[0]), frame)), target.elts[0]
        if function in _PASSING_ON:
            return _numbers(iterable.args[0], target, frame)
    raise UnknownValue


def _length(iterable: ast.expr, frame: FrameType) -> int:
    """How many values it gives; raises `UnknownValue`."""
    if isinstance(iterable, ast.Call) and _is_range(iterable):
        return len(_range(iterable, frame))
    return length(value(iterable, frame))


def _is_range(call: ast.Call) -> bool:
    return _name(call) == "range" and bool(call.args) and not call.keywords


def _range(call: ast.Call, frame: FrameType) -> range:
    return range(*(integer(argument, frame) for argument in call.args))


def _unwrapped(iterable: ast.expr) -> ast.expr:
    """What a progress bar, say, is around."""
    while isinstance(iterable, ast.Call) and iterable.args and _name(iterable) in _PASSING_ON:
        iterable = iterable.args[0]
    return iterable


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _first_number(call: ast.Call, frame: FrameType) -> int:
    """The number from which `enumerate` counts."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "start")]
    return integer(given[0], frame) if given else 0


def _loader_progress(iterators: Sequence[Any]) -> _LoopProgress | None:
    """By the DataLoader iterator that was started last, if it has batches left."""
    for iterator in iterators[:1]:
        known = process_facts.length(iterator)
        if known is not None and known > iterator._num_yielded:
            return _LoopProgress(known - iterator._num_yielded, known)
    return None
