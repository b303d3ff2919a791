"""How many iterations the script's loops still have, read from the source of the loops that are running.

In: a frame of the user's code. Out: a number of iterations, or None where a loop does not say its length. Only reads
values that exist (names, attributes, `len`), calls nothing of the user's but `__len__`, so the script cannot notice.
Apart because it is a guess: it may shrink a plan that would not fit, and nothing else depends on it.
"""

from __future__ import annotations

import ast
import linecache
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from tracelens.capture.frames import is_users

FRAMES = 60
"""A framework's training loop lies within so many frames of the optimizer's step."""
LONGEST_SOURCE = 20_000
"""Lines; parsing takes about 10 ms per thousand, once."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class _Loop:
    left: int
    length: int


@dataclass(frozen=True)
class Block:
    """Where a recording was begun inside the script: loops around that place go on after it, and do not count."""

    code: CodeType
    line: int


class _Unknown(Exception):
    """An expression whose value cannot be told without running the user's code."""


def iterations(frame: FrameType | None, block: Block | None = None) -> int | None:
    """Iterations of the innermost loop that are still to come, over all the loops around it; None where unknown.

    Counts the loops inside `block` only, if there is one.
    """
    left, inner, found = 0, 1, False
    for _ in range(FRAMES):
        if frame is None:
            break
        last = block is not None and frame.f_code is block.code
        if is_users(frame.f_code):
            for loop in _loops(frame, block.line if last and block else 0):
                if loop is None:  # a `while`, or an iterable without a length
                    return None
                found = True
                left += loop.left * inner
                inner *= max(1, loop.length)
        if last:
            break
        frame = frame.f_back
    return left if found else None


def _loops(frame: FrameType, after: int) -> Iterator[_Loop | None]:
    """The loops of this frame around its current line that begin after the line `after`, innermost first."""
    code = frame.f_code
    for node in _around(code.co_filename, code.co_firstlineno, code.co_name, frame.f_lineno):
        if node.lineno <= after:
            continue
        if isinstance(node, ast.While):
            yield None
            continue
        try:
            yield _measure(node, frame)
        except _Unknown:
            yield None


@lru_cache(maxsize=64)
def _around(path: str, first: int, function: str, line: int) -> tuple[ast.For | ast.AsyncFor | ast.While, ...]:
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
    loops: list[ast.For | ast.AsyncFor | ast.While] = []
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


def _measure(node: ast.For | ast.AsyncFor, frame: FrameType) -> _Loop:
    iterable, index, first = node.iter, node.target, 0
    if isinstance(iterable, ast.Call):
        name = getattr(iterable.func, "id", getattr(iterable.func, "attr", ""))
        if name == "range" and iterable.args and not iterable.keywords:
            numbers = range(*(_integer(argument, frame) for argument in iterable.args))
            return _Loop(_after(numbers, node.target, frame), len(numbers))
        if not iterable.args or name not in ("enumerate", "tqdm", "trange", "track", "zip", "prefetch", "iter"):
            raise _Unknown
        if name == "trange":
            numbers = range(_integer(iterable.args[0], frame))
            return _Loop(_after(numbers, node.target, frame), len(numbers))
        if name == "enumerate" and isinstance(node.target, ast.Tuple):
            index = node.target.elts[0]
            first = _first_number(iterable, frame)
        iterable = iterable.args[0]
        if isinstance(iterable, ast.Call):  # enumerate(tqdm(loader))
            iterable = iterable.args[0] if iterable.args else iterable
    length = _length(_value(iterable, frame))
    return _Loop(_after(range(first, first + length), index, frame), length)


def _first_number(call: ast.Call, frame: FrameType) -> int:
    """Where `enumerate` begins to count."""
    given = [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "start")]
    return _integer(given[0], frame) if given else 0


def _after(numbers: range, target: ast.expr, frame: FrameType) -> int:
    """How many of `numbers` follow the loop variable's value; all of them where it has no such value."""
    current = frame.f_locals.get(target.id) if isinstance(target, ast.Name) else None
    if isinstance(current, int) and current in numbers:
        return len(numbers) - 1 - numbers.index(current)
    return len(numbers)


def _integer(node: ast.expr, frame: FrameType) -> int:
    value = _value(node, frame)
    if not isinstance(value, int):
        raise _Unknown
    return value


def _length(value: Any) -> int:
    try:
        return len(value)
    except (TypeError, NotImplementedError) as error:
        raise _Unknown from error


def _value(node: ast.expr, frame: FrameType) -> Any:
    """The value of a plain expression, by looking it up; raises `_Unknown` for everything else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        inner = getattr(_value(node.value, frame), "__dict__", {})
        if node.attr in inner:
            return inner[node.attr]
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _integer(node.left, frame), _integer(node.right, frame)
        if right or not isinstance(node.op, ast.FloorDiv):
            return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "len" and len(node.args) == 1:
        return _length(_value(node.args[0], frame))
    raise _Unknown
