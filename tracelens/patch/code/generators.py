"""When a generator method looks at its own object: `log_every`, which prints the meters every `print_freq` batches.

In: the syntax tree of the method. Out: `Shown`, a condition on the number of the batch, in the generator's own words;
raises `Unproven`. Proven from the source alone: one `yield` in one loop over a parameter, a counter of its passes,
and the object (or what was made of it) nowhere else than below an `if` on that counter, behind the `yield`. Python's
own parser, because the class mostly stands in another file than the loop.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tracelens.messages import say
from tracelens.patch.code.source import ReasonedError
from tracelens.patch.effects import syntax
from tracelens.patch.effects.words import words

_KEPT_METHODS = 64
"""Methods that loops run over; a project has a few."""
_KEEPS_NOTHING = words("str repr format print len type isinstance hasattr getattr id super")
"""Calls that are given the object and keep nothing of it."""
_PLAIN = (ast.Compare, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Constant, ast.Name, ast.Call)
_SIGNS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Try, ast.With, ast.FunctionDef, ast.Lambda, ast.ClassDef)
_HIDES = (ast.FunctionDef, ast.Lambda, ast.Global, ast.Nonlocal)
_BINDS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.withitem)


class Unproven(ReasonedError):
    """Why the source does not show it, in words that follow "`log_every` …"."""


@dataclass(frozen=True)
class Shown:
    """`condition` holds after each batch after which the generator looks at its object; `counter` counts from 0."""

    counter: str
    condition: str
    needs: frozenset[str]
    """Parameters of the generator in the condition."""
    lines: tuple[tuple[int, int], ...] = ()
    """The first and last lines of the statements that look at the object."""


def shown(function: ast.FunctionDef) -> Shown:
    """When the method looks at its object; raises `Unproven`."""
    told = _told(function)
    if isinstance(told, Shown):
        return told
    raise Unproven(told)


@lru_cache(maxsize=_KEPT_METHODS)
def _told(function: ast.FunctionDef) -> Shown | str:
    """The same, or why it is not proven: each plan of a loop asks."""
    try:
        return _Generator(function).shown()
    except Unproven as error:
        return error.reason


def hands_on(function: ast.FunctionDef) -> bool:
    """Whether a method gives its object to somebody who could keep it."""
    name = first_parameter(function)
    return bool(name) and any(_exposes(node, name) for node in function.body)


def first_parameter(function: ast.FunctionDef) -> str:
    return function.args.args[0].arg if function.args.args else ""


class _Generator:
    """One generator method, taken apart."""

    def __init__(self, function: ast.FunctionDef) -> None:
        if function.decorator_list or function.args.vararg is not None or function.args.kwarg is not None:
            raise Unproven(say("is decorated, or takes any number of arguments"))
        if any(isinstance(node, _HIDES) for part in function.body for node in syntax.walk(part)):
            raise Unproven(say("has a function of its own, or names of the whole file"))
        if hands_on(function):
            raise Unproven(say("hands its object on"))
        self._function = function
        arguments = function.args
        self._parameters = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        self._parameters.discard(first_parameter(function))
        self._loop, self._at = self._yielding_loop()
        self._tainted = self._made_of_object()
        self._counter, self._first, self._raised = self._counted()

    def shown(self) -> Shown:
        loop, behind = self._loop, self._function.body.index(self._loop) + 1
        for statement in (*loop.body[: self._at], *self._function.body[behind:], *loop.orelse):
            if self._mentions(statement):
                raise Unproven(
                    say("looks at its object in each pass, or at its end (line {lineno})", lineno=statement.lineno)
                )
        found = [
            self._looking_at(statement, number)
            for number, statement in enumerate(loop.body[self._at + 1 :], self._at + 1)
            if self._mentions(statement)
        ]
        if not found:
            raise Unproven(say("looks at its object in no place that can be told"))
        whole = found[0] if len(found) == 1 else ast.BoolOp(ast.Or(), found)
        text = ast.unparse(ast.fix_missing_locations(whole))
        looking = [one for one in loop.body[self._at + 1 :] if self._mentions(one)]
        lines = tuple((one.lineno, one.end_lineno or one.lineno) for one in looking)
        return Shown(self._counter, text, frozenset(_names(whole) & self._parameters), lines)

    def _looking_at(self, statement: ast.stmt, number: int) -> ast.expr:
        """The condition of a statement that looks at the object, counting batches from 0."""
        if not isinstance(statement, ast.If) or self._mentions(statement.test):
            raise Unproven(say("looks at its object in each pass (line {lineno})", lineno=statement.lineno))
        if any(self._mentions(other) for other in statement.orelse):
            raise Unproven(say("looks at its object in an `else` (line {lineno})", lineno=statement.lineno))
        shift = self._first + (1 if self._raised < number else 0)
        condition = self._necessary(statement.test)
        return _replaced(condition, {self._counter: _plus(self._counter, shift)}) if shift else condition

    def _yielding_loop(self) -> tuple[ast.For, int]:
        yields = [node for node in syntax.walk(self._function) if isinstance(node, (ast.Yield, ast.YieldFrom))]
        for loop in self._function.body:
            for at, statement in enumerate(loop.body if isinstance(loop, ast.For) else ()):
                alone = isinstance(statement, ast.Expr) and [statement.value] == yields
                if isinstance(loop, ast.For) and alone and isinstance(yields[0], ast.Yield):
                    if any(isinstance(node, _LEAVES) for part in loop.body for node in syntax.walk(part)):
                        raise Unproven(say("can leave its loop in the middle"))
                    return loop, at
        raise Unproven(say("has not just one `yield`, in one loop"))

    def _made_of_object(self) -> set[str]:
        """Names that were made of the object, or handed a part of it: they may show what it holds."""
        tainted, size = {first_parameter(self._function), "super"}, 0
        while size != len(tainted):
            size = len(tainted)
            for node in syntax.walk(self._function):
                if isinstance(node, _BINDS):
                    bound, value = _binding(node)
                    tainted |= bound if _names(value) & tainted else set()
                elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                    handed = (*node.value.args, *node.value.keywords)
                    root = _root(node.value.func)
                    if root not in _KEEPS_NOTHING and any(_names(one) & tainted for one in handed):
                        tainted.add(root)
        return tainted

    def _mentions(self, node: ast.AST) -> bool:
        return bool(_names(node) & self._tainted)

    def _counted(self) -> tuple[str, int, int]:
        """The counter's name, its first value, and the position in the loop's body at which it is raised."""
        loop, over = self._loop, self._loop.iter
        if isinstance(over, ast.Call) and _root(over.func) == "enumerate" and len(over.args) == 1 and not over.keywords:
            target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
            if isinstance(target, ast.Name) and self._stores(target.id) == 1:
                self._check_parameter(over.args[0])
                return target.id, 0, len(loop.body)
        self._check_parameter(over)
        for at, statement in enumerate(loop.body):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
                name, step = statement.target, statement.value
                if isinstance(name, ast.Name) and isinstance(step, ast.Constant) and step.value == 1:
                    first = self._assigned_before(name.id)
                    if isinstance(first, ast.Constant) and type(first.value) is int and self._stores(name.id) == 2:
                        return name.id, first.value, at
        raise Unproven(say("does not count its passes in a way that can be told"))

    def _check_parameter(self, over: ast.expr) -> None:
        if not (isinstance(over, ast.Name) and over.id in self._parameters and self._stores(over.id) == 0):
            raise Unproven(say("runs over something else than what it is given"))

    def _assigned_before(self, name: str) -> ast.expr | None:
        """What a name is assigned by the one plain assignment before the loop."""
        before = self._function.body[: self._function.body.index(self._loop)]
        values = [one.value for one in before if isinstance(one, ast.Assign) and _binding(one)[0] == {name}]
        return values[0] if len(values) == 1 else None

    def _stores(self, name: str) -> int:
        nodes = (node for node in syntax.walk(self._function) if isinstance(node, ast.Name) and node.id == name)
        return sum(not isinstance(node.ctx, ast.Load) for node in nodes)

    def _necessary(self, test: ast.expr) -> ast.expr:
        """What certainly holds where `test` does, in terms of the counter and the parameters."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            return ast.BoolOp(ast.Or(), [self._necessary(part) for part in test.values])
        if isinstance(test, ast.BoolOp):
            known = [found for part in test.values for found in self._perhaps(part)]
            if known:
                return known[0] if len(known) == 1 else ast.BoolOp(ast.And(), known)
        constants = {name: value for name in _names(test) for value in [self._constant(name)] if value is not None}
        closed = _replaced(test, constants)
        if not all(self._is_closed(node) for node in syntax.walk(closed)):
            raise Unproven(
                say("looks at its object when more than the batch's number says so (line {lineno})", lineno=test.lineno)
            )
        return closed

    def _perhaps(self, part: ast.expr) -> Iterator[ast.expr]:
        """A part of an `and`, which may be left out: without it the condition holds more often."""
        try:
            yield self._necessary(part)
        except Unproven:
            return

    def _is_closed(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            unchanged = node.id in self._parameters and self._stores(node.id) == 0
            return unchanged or node.id in (self._counter, "len")
        if isinstance(node, ast.Call):
            return ast.unparse(node.func) == "len" and len(node.args) == 1 and isinstance(node.args[0], ast.Name)
        return isinstance(node, (*_PLAIN, *_SIGNS))

    def _constant(self, name: str) -> ast.expr | None:
        """What a name is, if it is assigned once, before the loop, and what it is made of has always one value."""
        value = self._assigned_before(name) if name != self._counter and self._stores(name) == 1 else None
        calls = value is None or any(isinstance(node, ast.Call) for node in syntax.walk(value))
        return None if calls else value


class _Replacer(ast.NodeTransformer):
    """Puts expressions in the places of names."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._values.get(node.id, node))


def _replaced(node: ast.expr, values: dict[str, ast.expr]) -> ast.expr:
    new = _Replacer(values).visit(copy.deepcopy(node))
    assert isinstance(new, ast.expr)
    return new


def _plus(name: str, shift: int) -> ast.expr:
    return ast.BinOp(ast.Name(name, ast.Load()), ast.Add(), ast.Constant(shift))


def _binding(node: ast.AST) -> tuple[set[str], ast.AST]:
    """The roots of what a node binds, and what it binds them to."""
    if isinstance(node, ast.For):
        targets, value = [node.target], node.iter
    elif isinstance(node, ast.withitem):
        targets, value = [node.optional_vars] if node.optional_vars is not None else [], node.context_expr
    elif isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    else:
        assert isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr))
        targets, value = [node.target], node.value or node.target
    flat = [part for target in targets for part in _flat(target)]
    return {_root(part) for part in flat}, value


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _flat(element)
    else:
        yield target


def _root(node: ast.AST) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in syntax.walk(node) if isinstance(part, ast.Name)}


def _exposes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return False
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
        return False  # who called the method has the object already
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _KEEPS_NOTHING:
        given = (one.value if isinstance(one, ast.keyword) else one for one in (*node.args, *node.keywords))
        return any(_exposes(one, name) for one in given if not isinstance(one, ast.Name))
    return any(_exposes(child, name) for child in syntax.children(node))
