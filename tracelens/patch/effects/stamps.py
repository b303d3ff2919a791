"""Stamps: times of day that are only written beside what is shown, where the time is that of the line in any case.

In: an analysis, and a deed that reads a clock. Out: yes or no. What is compared, stored, kept, written into a
file or a part of its name is no stamp: it may decide something.
"""

from __future__ import annotations

import ast

from tracelens.patch.effects import syntax
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.deeds import Deed, is_time_of_day
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    DISK_READ,
    DISK_WRITE,
    OUTPUT,
    Activation,
    Callbacks,
    Module,
    Unit,
    UnitSummary,
)
from tracelens.patch.effects.places import path_to


def is_stamp(analysis: Analysis, deed: Deed) -> bool:
    """Whether a time of day goes nowhere but to what is shown, through functions that return it, too."""
    of_the_day = is_time_of_day(deed) and deed.node not in analysis.timed_places
    return of_the_day and _is_shown(analysis, deed.unit, deed.node, set())


def _is_shown(analysis: Analysis, unit: Unit, node: ast.AST, seen: set[tuple[Unit, ast.AST]]) -> bool:
    if isinstance(unit, Callbacks) or (unit, node) in seen:
        return False
    seen.add((unit, node))
    summary = analysis.memory.summaries[unit]
    path = path_to(code_of(unit), node)
    for outer in reversed(path[:-1]):
        if isinstance(outer, ast.Call) and (shows := _shows(summary, outer)) is not None:
            return shows
        if isinstance(outer, (ast.Return, ast.Lambda)):
            callers = analysis.callers.get(unit, ())
            return bool(callers) and all(_is_shown(analysis, *caller, seen) for caller in callers)
        if isinstance(outer, ast.stmt):
            return isinstance(outer, ast.Assign) and _is_shown_by_name(analysis, unit, outer, seen)
    return False


def _shows(summary: UnitSummary, call: ast.Call) -> bool | None:
    """Whether a call shows what it is given, or may look at it; None where it only makes something of it."""
    if any(at is call for at, _ in summary.calls):
        return False  # of the project
    kinds = {effect.kind for at, effect in summary.effects if at is call}
    if kinds & {DISK_READ, DISK_WRITE} or any(given.arg == "file" for given in call.keywords):
        return False  # it may be read back
    return True if OUTPUT in kinds else None


def _is_shown_by_name(
    analysis: Analysis, unit: Module | Activation, bound: ast.Assign, seen: set[tuple[Unit, ast.AST]]
) -> bool:
    """Whether a name of a function is used for nothing else than to be shown."""
    (target, *others) = bound.targets
    if others or not isinstance(target, ast.Name) or isinstance(unit, Module):
        return False
    parts = list(syntax.walk(code_of(unit)))
    if any(isinstance(part, (ast.Global, ast.Nonlocal)) and target.id in part.names for part in parts):
        return False
    names = (part for part in parts if isinstance(part, ast.Name) and part.id == target.id)
    return all(_is_shown(analysis, unit, use, seen) for use in names if isinstance(use.ctx, ast.Load))
