"""Which other mentions of a variable are certain to be evaluated whenever one of them is, with the same value.

In: the code of a function or module, and a name in it. Out: mentions, each as the path of nodes that leads to it. One
is certain if it stands before the asked one, or follows it on every path of the same batch: below no condition, loop or
handler that the asked one is not below too, behind no jump, and with no binding of the name between the two.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import KEPT_STATEMENTS, KEPT_TREES, LOOPS, path_to, position
from tracelens.patch.effects.scopes import COMPREHENSIONS, FUNCTIONS, Code, bound_by, nodes_of, stored_in
from tracelens.patch.effects.words import words

Path = Sequence[ast.AST]
KeepsErrors = Callable[[ast.With | ast.AsyncWith], bool]
"""Whether no exception ends at the end of a `with` block."""
_TRIES = (ast.Try, ast.TryStar)
_WITHS = (ast.With, ast.AsyncWith)
_NEVER = (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef, ast.ExceptHandler, ast.match_case)
_ALWAYS: Mapping[type[ast.AST], tuple[str, ...]] = {
    **dict.fromkeys((ast.If, ast.While, ast.IfExp, ast.Assert), ("test",)),
    **dict.fromkeys((ast.For, ast.AsyncFor), ("iter",)),
    ast.Match: ("subject",),
    ast.AnnAssign: ("target", "value"),
    ast.BoolOp: ("values",),
    ast.Compare: ("left", "comparators"),
    **dict.fromkeys(_NEVER, ()),
}
"""The fields of a node whose parts are evaluated whenever it is, where these are not all."""
_FIRST_ONES: Mapping[type[ast.AST], int] = {ast.BoolOp: 1, ast.Compare: 2}
"""How many of those parts are, where the others are asked for only at times."""
_LEAVES = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Raise)
_JUMPS = (*_LEAVES, ast.Break, ast.Continue)
_EXITS = words("exit _exit quit abort")
"""What may end the program in its first batch."""


def mentions(code: Code, node: ast.Name, keeps_errors: KeepsErrors, caught: bool) -> Iterator[Path]:
    """The mentions that are certain, the asked one among them; none where the name means something else there.

    `caught`: an exception in this code may end in a handler that lets the training go on.
    """
    asked = own_path(code, node)
    if not asked:
        return
    yield asked
    stores = [path_to(code, one) for one in _bindings(code).get(node.id, ())]
    for other in _loads(code).get(node.id, ()):
        path = path_to(code, other)
        if other is not node and _Pair(asked, path, keeps_errors, caught).is_certain(stores):
            yield path


def own_path(code: Code, node: ast.Name) -> Path:
    """The nodes from the code to a name of its own; none for one of an inner function or comprehension."""
    path = path_to(code, node)
    if any(isinstance(one, (*FUNCTIONS, ast.ClassDef)) for one in path[1:]):
        return []
    inner = (one for one in path if isinstance(one, COMPREHENSIONS))
    return [] if any(node.id in stored_in(one) for one in inner) else path


def ends_errors(path: Path) -> bool:
    """Whether a loop goes on after an exception at the end of the path: a handler within it takes it."""
    below_loop = False
    for outer, inner in pairwise(path):
        if below_loop and isinstance(outer, _TRIES) and (_jumps(outer) or (outer.handlers and inner in outer.body)):
            return True
        below_loop = below_loop or isinstance(outer, LOOPS)
    return False


@dataclass(frozen=True)
class _Pair:
    """The asked mention and another one of the same name, by their paths from the code on."""

    asked: Path
    other: Path
    keeps_errors: KeepsErrors
    caught: bool

    @property
    def shared(self) -> int:
        """How many nodes both paths begin with."""
        pairs = zip(self.asked, self.other, strict=False)
        return next(number for number, (left, right) in enumerate(pairs) if left is not right)

    @property
    def around(self) -> ast.AST:
        return self.asked[self.shared - 1]

    @property
    def is_before(self) -> bool:
        return position(self.other[-1]) < position(self.asked[-1])

    def is_certain(self, stores: Sequence[Path]) -> bool:
        """Whether the other one is evaluated whenever the asked one is, and finds the same value."""
        below = self.other[self.shared :]
        if not all(self._always(outer, inner) for outer, inner in pairwise(below)):
            return False
        between = self._statements()
        if not between or any(self._rebinds(one) for one in stores if not between.isdisjoint(one)):
            return False
        return self.is_before or self._is_reached(between)

    def _statements(self) -> frozenset[ast.AST]:
        """The statements, or parts of one, from the first of the two to the second; none where neither leads to one."""
        ends = (self.asked[self.shared], self.other[self.shared])
        for block in _blocks(self.around):
            if all(one in block for one in ends):
                first, last = sorted(block.index(one) for one in ends)
                return frozenset(block[first : last + 1])
        leads = self._always(self.around, ends[1]) and not isinstance(self.around, _TRIES)
        return frozenset({self.around}) if leads else frozenset()

    def _always(self, outer: ast.AST, inner: ast.AST) -> bool:
        """Whether a part of a node is evaluated whenever the node is, or an exception leaves the batch."""
        if isinstance(outer, _WITHS):
            return inner not in outer.body or self.keeps_errors(outer)
        if isinstance(outer, _TRIES):
            return inner in outer.body and not outer.handlers and not _jumps(outer)
        fields = _ALWAYS.get(type(outer), outer._fields)
        parts = [part for name in fields for part in _listed(getattr(outer, name))]
        return inner in parts[: _FIRST_ONES.get(type(outer))]

    def _rebinds(self, store: Path) -> bool:
        """Whether a binding in these statements may come between the two."""
        if getattr(self.around, "iter", None) is self.other[self.shared]:
            return True  # `for part in loss.split(2): loss = …`
        again = any(isinstance(one, LOOPS) for one in self.asked[self.shared :])
        if again and self.asked[self.shared] in store:
            return True
        first, second = (self.other, self.asked) if self.is_before else (self.asked, self.other)
        statement = _statement(store)
        if statement is _statement(second) and not any(isinstance(one, ast.NamedExpr) for one in store):
            return False  # the value is there before the name is bound
        within = position(first[-1]) < position(store[-1]) < position(second[-1])
        return within or (statement is _statement(first) and statement is not _statement(second))

    def _is_reached(self, between: frozenset[ast.AST]) -> bool:
        """Whether nothing but an exception that leaves the loop keeps the other one from being reached."""
        outside = self.asked[: self.shared + 1]
        loops = [number for number, one in enumerate(outside[:-1]) if isinstance(one, LOOPS)]
        if self.caught or not loops or ends_errors(outside) or any(_leaves_block(one) for one in between):
            return False
        pairs = pairwise(outside[loops[0] :])
        return all(
            self.keeps_errors(outer) for outer, inner in pairs if isinstance(outer, _WITHS) and inner in outer.body
        )


def _jumps(node: ast.Try | ast.TryStar) -> bool:
    """Whether the end of a `try` takes an exception: `finally: continue`."""
    return any(isinstance(one, _JUMPS) for part in node.finalbody for one in syntax.walk(part))


@lru_cache(maxsize=KEPT_STATEMENTS)
def _leaves_block(statement: ast.AST) -> bool:
    """The same, which is asked of the statements of a loop with each pair of mentions."""
    return _jumps_out(statement)


def _jumps_out(node: ast.AST) -> bool:
    """Whether a statement may leave the block, but for the end of an inner loop."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return False
    inner = any(map(_jumps_out, syntax.children(node)))
    if isinstance(node, LOOPS) and inner:
        return any(isinstance(one, _LEAVES) or _is_exit(one) for one in syntax.walk(node))
    return inner or isinstance(node, _JUMPS) or _is_exit(node)


def _is_exit(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", "")) in _EXITS


def _blocks(node: ast.AST) -> Iterator[list[ast.AST]]:
    """The lists of statements in a node."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _listed(value: object) -> list[ast.AST]:
    every = value if isinstance(value, list) else [value]
    return [one for one in every if isinstance(one, ast.AST)]


def _statement(path: Path) -> ast.AST:
    return next(one for one in reversed(path) if isinstance(one, (ast.stmt, ast.ExceptHandler, ast.match_case)))


@lru_cache(maxsize=KEPT_TREES)
def _loads(code: Code) -> dict[str, list[ast.Name]]:
    out: dict[str, list[ast.Name]] = {}
    for node in nodes_of(code):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            out.setdefault(node.id, []).append(node)
    return out


@lru_cache(maxsize=KEPT_TREES)
def _bindings(code: Code) -> dict[str, list[ast.AST]]:
    out: dict[str, list[ast.AST]] = {}
    for node in nodes_of(code):
        for name in bound_by(node):
            out.setdefault(name, []).append(node)
    return out
