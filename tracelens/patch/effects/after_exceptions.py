"""What of a loop's statements anybody can look at once an exception has left the loop.

In: an analysis, the loop of one unit, and what its statements do. Out: lines, results or nothing, for plans that lose
what waits then. An exception that nobody catches ends the process; one that is caught leaves what is not of that call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.deeds import Deed
from tracelens.patch.effects.memory import SHARED, Unit
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    DISK_WRITE,
    OUTPUT,
    WRITES,
    Activation,
    Callbacks,
    Container,
    Instance,
    Module,
    Object,
    Plain,
    Thing,
    Unknown,
)
from tracelens.patch.effects.places import Loop, path_to
from tracelens.patch.effects.statements import Statements

Seen = Literal["lines", "results"]
SEEN: tuple[Seen, ...] = ("lines", "results")
_MADE = (Container, Instance)


def seen_of(
    analysis: Analysis, unit: Module | Activation, loop: Loop, moved: Collection[Deed], started: Path
) -> Seen | None:
    """What of `moved` can be seen after an exception. `started`: the script, whose end is the process's."""
    if any(deed.effect.kind in (OUTPUT, DISK_WRITE) for deed in moved):
        return "lines"
    changed = {deed.effect.target for deed in moved if deed.effect.kind == WRITES} - {None}
    if any(isinstance(one, Unknown) for one in changed):
        return "results"  # it may be a file, which lasts longer than the process
    if _is_guarded(analysis, unit, loop):
        return "results" if changed else None
    others = frozenset[Object]() if isinstance(unit, Module) else _others(analysis, unit)
    held = not others.isdisjoint(changed - {unit}) or any(map(_closes_over(unit), others))
    return "results" if (held or isinstance(unit, Module)) and _may_be_caught(analysis, unit, loop, started) else None


def _closes_over(unit: Unit) -> Callable[[Object], bool]:
    """Tests whether a function takes variables from the call."""
    return lambda one: getattr(one, "frame", None) is unit


def _others(analysis: Analysis, unit: Unit) -> frozenset[Object]:
    """What others than one call of the function can reach, its callers included."""
    memory = analysis.memory
    roots = {one for one in memory.fields if not isinstance(one, _MADE) and not _is_made_by_a_call(one)}
    return frozenset(memory.reach((roots | {SHARED}) - {unit}))


def _is_made_by_a_call(one: Object) -> bool:
    return isinstance(one, Thing) and one.site is not None and not isinstance(one.site, str)


def _may_be_caught(analysis: Analysis, unit: Module | Activation, loop: Loop, started: Path) -> bool:
    """Whether a `try` or `with` around the loop, or around a call that leads to it, may catch an exception."""
    seen: set[Unit] = set()
    waiting: list[tuple[Unit, ast.AST]] = [(unit, loop)]
    while waiting:
        current, node = waiting.pop()
        if isinstance(current, Callbacks) or any(
            _catches(analysis, current, a) for a in path_to(code_of(current), node)
        ):
            return True
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current, Module):
            if current.file.path != started:
                return True
            continue
        summaries = analysis.memory.summaries
        callers = [(one, at) for one, summary in summaries.items() for at, called in summary.calls if called is current]
        if not callers:
            return True
        waiting += callers
    return False


def _is_guarded(analysis: Analysis, unit: Module | Activation, node: ast.AST) -> bool:
    return any(_catches(analysis, unit, block) for block in path_to(code_of(unit), node))


def _catches(analysis: Analysis, unit: Module | Activation, block: ast.AST) -> bool:
    if isinstance(block, (ast.Try, ast.TryStar)):
        return bool(block.handlers or block.finalbody)
    return isinstance(block, (ast.With, ast.AsyncWith)) and not all(
        _is_of_kind(analysis, unit, item, ("bar", "context", "file")) for item in block.items
    )


def is_plain_block(analysis: Analysis, unit: Module | Activation, item: ast.withitem) -> bool:
    """Whether a `with` block changes nothing for statements that only look at numbers."""
    return _is_of_kind(analysis, unit, item, ("context",))


def _is_of_kind(analysis: Analysis, unit: Module | Activation, item: ast.withitem, kinds: tuple[str, ...]) -> bool:
    given = Statements(unit, unit, analysis.dispatch, analysis.project).value(item.context_expr)
    return bool(given) and all(
        isinstance(one, Plain) or (isinstance(one, Thing) and one.kind in kinds) for one in given
    )
