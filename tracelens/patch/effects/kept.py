"""What of a statement that runs later can be evaluated where the statement stands: all that its results do not touch.

In: the statements of a loop that run later. Out: the pieces of them whose values are kept, and what the statements do
with all that is not. The patcher keeps the same pieces; `evaluated_in_place` is for the question asked without one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.deeds import Deed
from tracelens.patch.effects.objects import READS, Activation, Callbacks, Container, Module, Name, Object, Plain
from tracelens.patch.effects.places import Span, span_of

_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.JoinedStr, ast.FormattedValue)


class KeptValues:
    """The pieces of the statements of one unit whose values are kept where the statements stand.

    What is kept cannot change until they run: it is copied, or the statement is not put off.
    """

    def __init__(self, analysis: Analysis, unit: Module | Activation, spans: tuple[Span, ...]) -> None:
        self.analysis, self.unit, self.spans = analysis, unit, spans

    def holds(self, node: ast.AST) -> bool:
        return any(span.holds(node) for span in self.spans)

    def left_of(self, deed: Deed) -> Iterator[Deed]:
        """The deed without what a library's function or Python itself looks at of kept values."""
        if deed.effect.kind != READS or deed.at in self.calls_of_the_project:
            yield deed
        elif isinstance(deed.at, ast.Tuple) and self._is_made_there(deed.effect.target, deed.at):
            for part in deed.at.elts:
                found = (deed.effect._replace(target=one) for one in self._values(part))
                perhaps = deed.perhaps or (self.holds(part) and _is_read(part))
                yield from (replace(deed, effect=one, perhaps=perhaps) for one in found)
        elif not self._is_of_kept_values(deed):
            yield deed

    @cached_property
    def calls_of_the_project(self) -> frozenset[ast.AST]:
        """The nodes that call functions of the project themselves."""
        calls = self.analysis.memory.summaries[self.unit].calls
        return frozenset(node for node, called in calls if not isinstance(called, Callbacks))

    def _is_made_there(self, target: Object | None, display: ast.Tuple) -> bool:
        """Whether an object is the tuple that is shown, `"%d %f" % (step, loss)`: it is that of its parts."""
        plain = not any(isinstance(part, ast.Starred) for part in display.elts)
        return plain and isinstance(target, Container) and target.site is display

    def _values(self, part: ast.expr) -> Iterator[Object]:
        yield from (one for one in self.analysis.value(self.unit, part) if not isinstance(one, Plain))

    def _is_of_kept_values(self, deed: Deed) -> bool:
        if isinstance(deed.at, ast.BinOp):
            return self._is_made_of_kept(deed.at.left) and self._is_made_of_kept(deed.at.right)
        call = deed.at if isinstance(deed.at, ast.Call) else None
        if call is None or not all(map(self._is_made_of_kept, (*call.args, *(word.value for word in call.keywords)))):
            return False
        return deed.effect.target not in self._receivers(call)

    def _receivers(self, call: ast.Call) -> frozenset[Object | None]:
        """The objects whose method the call may be."""
        called = self.analysis.value(self.unit, call.func)
        return frozenset(one.receiver for one in called if isinstance(one, Name))

    def _is_made_of_kept(self, node: ast.expr) -> bool:
        """Whether a value is kept, or put together of such without a call: `[state]`."""
        if self.holds(node) or isinstance(node, ast.Constant):
            return True
        parts = [one for one in syntax.children(node) if isinstance(one, ast.expr)]
        return isinstance(node, _DISPLAYS) and all(map(self._is_made_of_kept, parts))


def _is_read(node: ast.expr) -> bool:
    """Whether a value is the number of a tensor, unless its method is another one of that name."""
    method = node.func if isinstance(node, ast.Call) and not node.args else None
    return isinstance(method, ast.Attribute) and method.attr == "item"


def evaluated_in_place(statements: Sequence[ast.AST]) -> tuple[Span, ...]:
    """The pieces of the statements that do not depend on what the statements change."""
    changed = frozenset(name for statement in statements for node in syntax.walk(statement) for name in _changed(node))
    return tuple(piece for statement in statements for piece in _pieces(statement, changed))


def _changed(node: ast.AST) -> Iterator[str]:
    """The texts of the names, attributes and objects that a statement changes."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        targets = [node.value.func.value]
    for target in targets:
        yield from _roots(target)


def _roots(target: ast.expr) -> Iterator[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _roots(element)
        return
    while isinstance(target, (ast.Subscript, ast.Call, ast.Starred)):
        target = target.func if isinstance(target, ast.Call) else target.value
    if isinstance(target, (ast.Name, ast.Attribute)):
        yield ast.unparse(target)


def _pieces(node: ast.AST, changed: frozenset[str]) -> Iterator[Span]:
    for child in _values(node):
        span = span_of(child)
        if isinstance(child, ast.expr) and span is not None and not _touches(child, changed):
            yield span
        else:
            yield from _pieces(child, changed)


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that are evaluated: what is called and what is bound are no values."""
    if isinstance(node, ast.Expr):
        yield from _values(node.value)
    elif isinstance(node, ast.Call):
        yield from (*node.args, *node.keywords)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(owner, (ast.Call, ast.Subscript)):
            yield owner
    elif isinstance(node, ast.Subscript):
        yield from (node.value, node.slice) if isinstance(node.value, (ast.Subscript, ast.Call)) else (node.slice,)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target for target in targets if isinstance(target, ast.Subscript))
        if node.value is not None:
            yield node.value
    else:
        yield from syntax.children(node)


def _touches(node: ast.AST, changed: frozenset[str]) -> bool:
    for part in syntax.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute)):
            text = ast.unparse(part)
            if text in changed or any(one.startswith(f"{text}.") for one in changed if isinstance(part, ast.Name)):
                return True
    return False
