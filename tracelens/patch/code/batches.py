"""Which lines of a file run once per batch of a training loop.

In: a file's tree, by Python's own parser. Out: a `Batches`. A loop trains if it goes backward or makes an optimizer's
step itself, or calls a function of the file that does, or one of another file that the project means by that name; a
function that goes backward is one step of a loop, here or elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name

_STEP_OWNER = re.compile(r"opt|scaler|^o$", re.IGNORECASE)
_OF_OTHERS = re.compile(r"opt|sched|scaler|ema|meter|bar", re.IGNORECASE)
"""Whose `step` and `update` are torch's or a display's, whatever a method of the file of that name does."""
_NO_STEPS = ("backward", "forward", "__init__")

Loop = ast.For | ast.While
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Batches:
    """The parts of a file that run once per batch."""

    loops: tuple[Loop, ...]
    functions: tuple[ast.FunctionDef, ...]
    """Step functions: they go backward, the loop is in another function or file."""

    def __contains__(self, line: object) -> bool:
        parts = (*self.loops, *self.functions)
        return isinstance(line, int) and any(part.lineno <= line <= (part.end_lineno or 0) for part in parts)


def batches(tree: ast.Module, others: Iterable[ast.Module] = ()) -> Batches:
    """Loops that train themselves or by a call of a step function, and step functions: without such a loop inside.

    `others`: files that run together with this one, whose functions its loops may call.
    """
    defined = _defined(tree)
    steps = _step_functions(defined)
    called_here = steps | _steps_elsewhere(others, {node.name for node in defined})
    loops = tuple(
        node for node in syntax.walk(tree) if isinstance(node, Loop) and (_trains(node) or _calls(node, called_here))
    )
    inside = {id(part) for loop in loops for part in syntax.walk(loop)}
    called = {name for loop in loops for name in _called(loop)}
    functions = (node for node in defined if id(node) not in inside)
    return Batches(loops, tuple(f for f in functions if _trains(f) or (f.name in steps and f.name in called)))


def _defined(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in syntax.walk(tree) if isinstance(node, ast.FunctionDef) and node.name not in _NO_STEPS]


def _steps_elsewhere(others: Iterable[ast.Module], own: Collection[str]) -> frozenset[str]:
    """Names that mean a step wherever another file has a function of that name: not the `step` of an environment and
    of a learner, of which a loop may mean either, nor a name that the file has itself."""
    steps, others_of_the_name = set[str](), set(own)
    for defined in map(_defined, others):
        found = _step_functions(defined)
        steps |= found
        not_steps = (node for node in defined if not (_trains(node) or _calls(node, found) or _is_abstract(node)))
        others_of_the_name |= {node.name for node in not_steps}
    return frozenset(steps - others_of_the_name)


def _is_abstract(function: ast.FunctionDef) -> bool:
    """Whether a function only stands for those of other classes: nothing but a text, `pass`, `...` or `raise`."""
    return all(
        isinstance(one, ast.Pass | ast.Raise) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in function.body
    )


def _step_functions(defined: Collection[ast.FunctionDef]) -> frozenset[str]:
    """Names of functions that go backward outside of a loop of their own, or call one that does."""
    steps = frozenset(node.name for node in defined if _trains(node))
    while more := {node.name for node in defined if node.name not in steps and _calls(node, steps)}:
        steps |= more
    return steps


def _calls(node: Loop | ast.FunctionDef, names: Collection[str]) -> bool:
    return any(name in names for name in _called(node))


def _called(node: Loop | ast.FunctionDef) -> Iterator[str]:
    """Names of the functions that a loop or function calls by itself, as far as they may be the file's."""
    for part in own(node, through_loops=False):
        func = part.func if isinstance(part, ast.Call) else None
        if isinstance(func, ast.Attribute) and _OF_OTHERS.search(last_name(func.value)):
            continue
        if isinstance(func, ast.Attribute | ast.Name):
            yield last_name(func)


def own(node: ast.AST, *, through_loops: bool) -> Iterator[ast.AST]:
    """Everything below a node, without functions defined inside it."""
    for child in syntax.children(node):
        if isinstance(child, _SCOPES) or (isinstance(child, Loop) and not through_loops):
            continue
        yield child
        yield from own(child, through_loops=through_loops)


def _trains(node: Loop | ast.FunctionDef) -> bool:
    calls = [part.func for part in own(node, through_loops=False) if isinstance(part, ast.Call)]
    attributes = [func for func in calls if isinstance(func, ast.Attribute)]
    if any(func.attr == "backward" for func in attributes):
        return True
    steps = [func.value for func in attributes if func.attr == "step"]
    return isinstance(node, Loop) and any(_STEP_OWNER.search(last_name(owner)) for owner in steps)
