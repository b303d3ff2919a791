"""The statements of a batch that make the loss, from the first call of a module to the last before backward.

In: a parsed file. Out: a `ForwardPass` per call of backward, or why it is not clear where one is. Names are followed
backward from the loss through the statements of its block and of the blocks around that, up to the loop or function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tracelens.messages import say
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import around, last_name
from tracelens.patch.loop.module_calls import CHANGE_WEIGHTS, ModuleCalls, module_calls
from tracelens.patch.loop.project_trees import dotted, full_name, own_tree

_GROWS = frozenset({"append", "extend", "insert", "update", "setdefault"})
_BLOCKS = ("body", "orelse", "finalbody", "handlers")
_ENDS = (ast.For, ast.While, ast.AsyncFor, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module, ast.Lambda)
APART = say("call the model and the loss on lines of their own, before backward")


class Unclear(Exception):
    """Where the forward pass begins and ends cannot be told: the line, why, and what to do by hand."""

    def __init__(self, node: ast.AST, obstacle: str, by_hand: str) -> None:
        super().__init__(obstacle)
        self.line: int = getattr(node, "lineno", 1)
        self.obstacle = obstacle
        self.by_hand = by_hand
        self.path: Path | None = None

    def at(self, path: Path) -> Unclear:
        """The same, of a file."""
        self.path = path
        return self


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """The statements that make one loss, with the blocks in which they stand, in the order of the text."""

    backward: ast.Call
    places: tuple[tuple[Sequence[ast.stmt], int], ...]

    @property
    def statements(self) -> tuple[ast.stmt, ...]:
        return tuple(block[at] for block, at in self.places)


@lru_cache(maxsize=PARSED_FILES)
def forward_passes(source: SourceFile) -> tuple[ForwardPass | Unclear, ...]:
    """Of each call of backward in the file, in the order of the text."""
    return forward_pass_of(own_tree(source), module_calls(source))


def forward_pass_of(tree: ast.Module, modules: ModuleCalls) -> tuple[ForwardPass | Unclear, ...]:
    """The same of any file of the project."""
    calls = sorted(backward_calls(tree), key=lambda call: (call.lineno, call.col_offset))
    out: list[ForwardPass | Unclear] = []
    for call in calls:
        try:
            out.append(_Search(tree, modules, call).found())
        except Unclear as unclear:
            out.append(unclear)
    return tuple(out)


def backward_calls(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls of backward, except those by which an override hands on to the class above it."""
    for node in syntax.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            owner = node.func.value
            if not (isinstance(owner, ast.Call) and last_name(owner.func) == "super"):
                yield node


def changes_weights(node: ast.AST) -> bool:
    """Whether something in a node goes backward, makes a step or clears gradients."""
    calls = (part for part in syntax.walk(node) if isinstance(part, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and call.func.attr in CHANGE_WEIGHTS for call in calls)


@dataclass(eq=False)
class _Search:
    """From one call of backward up through the statements before it."""

    tree: ast.Module
    modules: ModuleCalls
    call: ast.Call
    wanted: set[str] = field(default_factory=set)
    """Names of which the loss is made, as far as they are not bound yet."""
    chosen: list[tuple[Sequence[ast.stmt], int]] = field(default_factory=list)
    """Blocks and places of the statements that make it, the last first."""

    def found(self) -> ForwardPass:
        """Raises `Unclear`."""
        statement = self._statement()
        self.wanted |= set(self._reads(statement))
        self._follow(statement)
        self._keep_what_follows_a_module()
        if not self.chosen:
            raise Unclear(
                self.call,
                say("which statements before backward are the forward pass cannot be told"),
                say("do it around the calls of the model and of the loss"),
            )
        for block, at in self.chosen:
            if self.modules.changes_weights(block[at]):
                obstacle = say(
                    "the forward pass is inside a block or a function that also goes backward or makes a step"
                )
                raise Unclear(block[at], obstacle, APART)
            if any(isinstance(part, ast.Yield | ast.Await) for part in syntax.walk(block[at])):
                raise Unclear(block[at], say("the forward pass is in a generator"), APART)
        return ForwardPass(self.call, tuple(reversed(self.chosen)))

    def _keep_what_follows_a_module(self) -> None:
        """Leave out what only prepares what modules are given."""
        results: set[str] = set()
        kept = []
        for block, at in reversed(self.chosen):
            reads = set(self._reads(block[at]))
            follows = any(_same(one, other) for one in reads for other in results)
            if follows or self.modules.computes(block[at]):
                kept.append((block, at))
                results |= set(_bound(block[at]))
        self.chosen = kept[::-1]

    def _statement(self) -> ast.stmt:
        """The statement that goes backward, which must do nothing else."""
        parent = around(self.tree).get(self.call)
        receiver = self.call.func.value if isinstance(self.call.func, ast.Attribute) else self.call
        if not isinstance(parent, ast.Expr):
            raise Unclear(self.call, say("backward is a part of another expression"), APART)
        if self.call.args:
            obstacle = say("backward is not called of a loss alone")
            raise Unclear(self.call, obstacle, say("set the precision of the engine that goes backward"))
        if self.modules.computes(receiver):
            raise Unclear(self.call, say("forward and backward stand in one expression"), APART)
        return parent

    def _follow(self, statement: ast.stmt) -> None:
        """Up to the loop or the function around it."""
        while True:
            parent = around(self.tree)[statement]
            block = next(b for name in _BLOCKS for b in [getattr(parent, name, [])] if statement in b)
            for at in range(block.index(statement) - 1, -1, -1):
                if self._makes_wanted(block[at]):
                    self.chosen.append((block, at))
            if isinstance(parent, _ENDS):
                return
            while not isinstance(parent, ast.stmt):  # a handler of `try`
                parent = around(self.tree)[parent]
            statement = parent

    def _makes_wanted(self, statement: ast.stmt) -> bool:
        """Whether a statement binds or changes what is wanted; what it reads is wanted then."""
        bound = set(_bound(statement))
        if not any(_same(one, other) for one in bound for other in self.wanted):
            return False
        if isinstance(statement, ast.Assign):
            self.wanted -= bound
        self.wanted |= set(self._reads(statement))
        return True

    def _reads(self, node: ast.AST) -> Iterator[str]:
        """The values that a statement reads: no functions, no modules of the model, nothing that is imported."""
        called = {id(part.func) for part in syntax.walk(node) if isinstance(part, ast.Call)}
        for part in syntax.walk(node):
            if isinstance(part, ast.Attribute) and id(part) in called:
                name = dotted(part.value)
            elif isinstance(part, ast.Name | ast.Attribute) and id(part) not in called:
                name = dotted(part)
            else:
                continue
            root, last = name.partition(".")[0], name.rpartition(".")[2]
            imported = full_name(self.tree, ast.Name(root)) != root
            if name and name != "self" and not imported and last not in self.modules.names:
                yield name


def sections(passes: Iterable[ForwardPass]) -> tuple[tuple[ast.stmt, ...], ...]:
    """The statements of several forward passes that stand together, with plain ones between them that leave weights
    alone: one of a pass that another pass has as a part of its own statement is there once."""
    passes = tuple(passes)
    blocks = {id(block): block for one in passes for block, _ in one.places}
    places = {name: {at for one in passes for block, at in one.places if id(block) == name} for name in blocks}
    chosen = [blocks[name][at] for name, found in places.items() for at in found]
    inside = {id(part) for one in chosen for part in syntax.walk(one) if part is not one}
    out: list[tuple[ast.stmt, ...]] = []
    for name, block in blocks.items():
        own = sorted(at for at in places[name] if id(block[at]) not in inside)
        out += _together(block, own)
    return tuple(sorted(out, key=lambda section: section[0].lineno))


def _together(block: Sequence[ast.stmt], places: Sequence[int]) -> Iterator[tuple[ast.stmt, ...]]:
    first = last = -1
    for at in places:
        if first >= 0 and not all(_stays_inside(one) for one in block[last + 1 : at]):
            yield tuple(block[first : last + 1])
            first = -1
        first, last = (at if first < 0 else first), at
    if first >= 0:
        yield tuple(block[first : last + 1])


def _stays_inside(statement: ast.stmt) -> bool:
    plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr)
    return plain and not changes_weights(statement)


def _bound(node: ast.AST) -> Iterator[str]:
    """Names and attributes that a statement binds, or whose objects it changes by a method that says so."""
    for part in syntax.walk(node):
        if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield dotted(part)
        elif isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store):
            yield dotted(part.value)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            name = part.func.attr
            if name in _GROWS or (name.endswith("_") and not name.startswith("_")):
                yield dotted(part.func.value)


def _same(one: str, other: str) -> bool:
    return bool(one and other) and (one == other or one.startswith(f"{other}.") or other.startswith(f"{one}."))


def spans_lines(statements: Iterable[ast.stmt]) -> tuple[int, int]:
    """The first and the last line of statements that stand together."""
    lines = [(one.lineno, one.end_lineno or one.lineno) for one in statements]
    return min(first for first, _ in lines), max(last for _, last in lines)
