"""What stands around a piece of a loop: the bar that the loop goes through, the wait before a clock is read,
and files that are stored into as if they were arrays.

In: an analysis, and a node with its unit. Out: yes or no.
"""

from __future__ import annotations

import ast

from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.deeds import Deed
from tracelens.patch.effects.dispatch import HELD
from tracelens.patch.effects.implicit import LAZY
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    WAITS,
    WRITES,
    Activation,
    Callbacks,
    Effect,
    Module,
    Object,
    Thing,
    Unknown,
)
from tracelens.patch.effects.places import statement_before


def goes_through_bar(analysis: Analysis, unit: Module | Activation, head: ast.expr) -> bool:
    """Whether what a loop goes through is a progress bar, counted or not."""
    waiting: list[Object] = list(analysis.value(unit, head))
    seen = set(waiting)
    while waiting:
        one = waiting.pop()
        if not isinstance(one, Thing):
            continue
        if one.kind == "bar":
            return True
        inner = analysis.memory.read(one, HELD, unit) - seen if one.kind in LAZY else frozenset[Object]()
        seen |= inner
        waiting += inner
    return False


def follows_a_wait(analysis: Analysis, deed: Deed) -> bool:
    """Whether the GPU is done when the clock is read: the statement before it always waits for the GPU."""
    if isinstance(deed.unit, Callbacks):
        return False
    before = statement_before(code_of(deed.unit), deed.node)
    if isinstance(before, ast.If) and _asks_for_a_gpu(before.test) and len(before.body) == 1:
        before = before.body[0]
    call = before.value if isinstance(before, ast.Expr) else None
    if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith("cuda.synchronize"):
        return False
    replaced = len(analysis.value(deed.unit, call.func)) != 1  # by something that the project put in its place
    return (call, Effect(WAITS)) in analysis.memory.summaries[deed.unit].effects and not replaced


def _asks_for_a_gpu(test: ast.expr) -> bool:
    """Whether a test holds wherever there is a GPU: `torch.cuda.is_available()`, `device.type == "cuda"`."""
    if isinstance(test, ast.Call):
        return ast.unparse(test).endswith("cuda.is_available()")
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and "cuda" in ast.unparse(test)


def maps(deed: Deed) -> bool:
    """Whether a value is stored in an array that may be a file: one that is mapped from it, and what nobody knows."""
    target = deed.effect.target
    return deed.effect.kind == WRITES and (
        isinstance(target, Unknown) or (isinstance(target, Thing) and target.kind in ("archive", "file"))
    )


def is_of_its_own(statement: ast.AST, node: ast.AST) -> bool:
    """Whether a call of a name stands as a statement, as that of a bar does which shows how long a batch took."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call is node and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
