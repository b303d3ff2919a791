"""What of a loop's statements anybody can look at once an exception has left the loop.

In: an analysis, the loop of one unit, and what its statements do. Out: lines, results or nothing, for plans that lose
what waits then. An exception that nobody catches ends the process; one that is caught leaves what is not of that call.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal, TypeGuard

from tracelens.messages import say
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.deeds import Deed, closed_over
from tracelens.patch.effects.memory import SHARED, Unit
from tracelens.patch.effects.names import code_of, module_of
from tracelens.patch.effects.objects import (
    BAR,
    DISK_WRITE,
    OUTPUT,
    TRACKED,
    UNKNOWN,
    WRITES,
    Activation,
    Callbacks,
    Container,
    Generator,
    Instance,
    Module,
    Object,
    Plain,
    Thing,
    Unknown,
)
from tracelens.patch.effects.places import Loop, path_to
from tracelens.patch.effects.raising import walk_without
from tracelens.patch.effects.scopes import FUNCTIONS

Seen = Literal["lines", "results"]
_ENDS = ("KeyboardInterrupt", "SystemExit")
_EXITS = ("sys.exit", "exit", "quit", "os._exit")
_MADE = (Container, Instance)
_YIELDS = (ast.Yield, ast.YieldFrom)
_CONTEXTS = ("contextmanager", "asynccontextmanager")


def seen_of(
    analysis: Analysis, unit: Module | Activation, loop: Loop, moved: Collection[Deed], started: Path
) -> Seen | None:
    """What of `moved` can be seen after an exception. `started`: the script, whose end is the process's."""
    if any(deed.effect.kind in (OUTPUT, BAR, DISK_WRITE, TRACKED) for deed in moved):
        return "lines"  # what a bar showed last stays on the screen
    changed = {deed.effect.target for deed in moved if deed.effect.kind == WRITES} - {None}
    if any(isinstance(one, Unknown) for one in changed) or any(deed.effect.kind == UNKNOWN for deed in moved):
        return "results"  # it may be a file, which lasts longer than the process
    if _is_guarded(analysis, unit, loop):
        return "results" if changed else None
    if not _may_be_caught(analysis, unit, loop, started):
        return None
    if isinstance(unit, Module):
        return "results"
    others = _others(analysis, unit)
    held = not others.isdisjoint(changed - {unit}) or any(unit in closed_over(one) for one in others)
    return "results" if held else None


def _others(analysis: Analysis, unit: Unit) -> frozenset[Object]:
    """What others than one call of the function can reach, its callers included."""
    memory = analysis.memory
    roots = {one for one in memory.fields if not isinstance(one, _MADE) and not _is_made_by_a_call(one)}
    return frozenset(memory.reach((roots | {SHARED}) - {unit}))


def _is_made_by_a_call(one: Object) -> bool:
    return isinstance(one, Thing) and one.site is not None and not isinstance(one.site, str)


def _may_be_caught(analysis: Analysis, unit: Module | Activation, loop: Loop, started: Path) -> bool:
    """Whether a `try` or `with` around the loop, or around a call that leads to it, may catch an exception.

    Or whether code of the project runs before the process ends, as a function of `atexit` does.
    Or whether a generator of the project may be half gone through, as that of a `for` around such a call: when the
    exception ends it, or leaves the frame that has it, what stands around its `yield` runs to its end.
    """
    if any(_ends_guarded(analysis, one) for one in analysis.memory.objects(Generator)):
        return True
    if analysis.runs_at_exit:
        return True
    for current, node, is_known in _ways_to(analysis, unit, loop):
        if isinstance(current, Callbacks) or not is_known or _is_guarded(analysis, current, node):
            return True
        if isinstance(current, Module) and current.file.path != started:
            return True
    return False


def late_errors(analysis: Analysis, unit: Module | Activation, loop: Loop) -> Iterator[tuple[str, str, int]]:
    """Why an error in a statement of the loop may not come some batches later: words, file and line."""
    handler = _handler_of_errors(analysis, unit, loop)
    if handler is not None:
        yield say("an error in it is caught there, and would be some batches later"), *handler
    inside = walk_without(loop, lambda node: isinstance(node, FUNCTIONS))
    early = next(filter(_leaves, inside), None)
    if early is not None:
        yield say("an error in it would be lost where the loop is left here"), module_of(unit).file.shown, early.lineno


def _leaves(node: ast.AST) -> TypeGuard[ast.Return | ast.Call]:
    """Whether it leaves a loop other than by its end or a `break`: an error that waits then has nowhere to go."""
    return isinstance(node, ast.Return) or (isinstance(node, ast.Call) and ast.unparse(node.func) in _EXITS)


def _handler_of_errors(analysis: Analysis, unit: Module | Activation, loop: Loop) -> tuple[str, int] | None:
    """File and line of what catches errors around the loop, and goes on after them."""
    for current, node, _ in _ways_to(analysis, unit, loop):
        if isinstance(current, Callbacks):
            continue
        for block in path_to(code_of(current), node):
            if isinstance(block, (ast.Try, ast.TryStar)):
                for handler in filter(_goes_on, block.handlers):
                    return module_of(current).file.shown, handler.lineno
    return None


def _ways_to(analysis: Analysis, unit: Module | Activation, loop: Loop) -> Iterator[tuple[Unit, ast.AST, bool]]:
    """The loop, the calls that lead to it, and whether all callers of that unit are known."""
    seen: set[Unit] = set()
    waiting: list[tuple[Unit, ast.AST]] = [(unit, loop)]
    while waiting:
        current, node = waiting.pop()
        callers = analysis.callers.get(current, ())
        yield current, node, bool(callers) or isinstance(current, Module)
        if current not in seen:
            seen.add(current)
            waiting += callers


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for errors, and does not end with one or with the process."""
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if all(isinstance(one, ast.Name) and one.id in _ENDS for one in named):
        return False
    last = handler.body[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    ends = isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS
    return not (ends or isinstance(last, ast.Raise))


def _is_guarded(analysis: Analysis, unit: Module | Activation, node: ast.AST) -> bool:
    return any(_catches(analysis, unit, block) for block in path_to(code_of(unit), node))


def _ends_guarded(analysis: Analysis, one: Generator) -> bool:
    """Whether a generator does something when it is closed before its end; a context manager is asked of its `with`."""
    code = one.activation.function.node
    decorators = map(ast.unparse, getattr(code, "decorator_list", ()))
    if any(each.rpartition(".")[2] in _CONTEXTS for each in decorators):
        return False
    inside = walk_without(code, lambda node: isinstance(node, FUNCTIONS) and node is not code)
    return any(_is_guarded(analysis, one.activation, node) for node in inside if isinstance(node, _YIELDS))


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
    given = analysis.value(unit, item.context_expr)
    return bool(given) and all(
        isinstance(one, Plain) or (isinstance(one, Thing) and one.kind in kinds) for one in given
    )
