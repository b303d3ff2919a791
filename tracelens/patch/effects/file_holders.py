"""Which variables of one file may hold the same object, told by its text alone: `progress = Progress([losses, top1])`.

In: a `FileText`. Out: what can be reached from a variable. A step from one to another is an assignment, an argument, a
result; each is written down once, so that the number of steps is that of the lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_calls import PLAIN, FileCalls, own_parameters
from tracelens.patch.effects.file_fills import FileFills
from tracelens.patch.effects.file_fresh import Times, fresh
from tracelens.patch.effects.file_made import content_of_bar
from tracelens.patch.effects.file_methods import FileMethods
from tracelens.patch.effects.file_text import FileText, Place, chain_of
from tracelens.patch.effects.file_values import FileValues, holds_nothing
from tracelens.patch.effects.places import Loop, function_of, last_name
from tracelens.patch.effects.scopes import COMPREHENSIONS, FUNCTIONS, Code, defaults, nodes_of, parameters
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.words import words

RESULT = "<result>"
COMPUTING = words("max min sorted zip enumerate map filter list tuple dict set reversed all any print")
"""Built-in functions that change nothing of what they are given."""
SHOWING = words(
    "add_scalar add_scalars add_image add_images add_figure add_text add_histogram add_graph add_audio log write info"
    " debug warning error set_postfix set_postfix_str set_description set_description_str log_metrics"
)
"""Methods that write down what they are given, and keep none of it."""


class FileHolders:
    """The steps of a whole file; `during` a loop, without what is over, or has not been reached, while it runs."""

    def __init__(self, text: FileText, calls: FileCalls | None = None, during: Loop | None = None) -> None:
        self.text, self.calls = text, calls or FileCalls(text)
        self._methods, self._fills, self._values = FileMethods(text), FileFills(self.calls), FileValues(text)
        self._within: dict[Loop, FileHolders] = {}
        self._code: ast.AST | None = None
        self._skipped: frozenset[ast.AST] = frozenset()
        self.fresh: Times = {}
        self._named: dict[ast.AST, Mapping[Place, frozenset[Place]]] = {}
        self._holding: dict[tuple[frozenset[Place], frozenset[Place]], frozenset[Place]] = {}
        if during is not None:
            code = function_of(text.tree, during)
            assert isinstance(code, Code)
            own = text.scope(code).own
            self._code, self._skipped = code, frozenset(_not_in_force(code, during, own))
            self.fresh = {name: lines for name, lines in fresh(text.tree, code, during).items() if name in own}

    def within(self, loop: Loop) -> FileHolders:
        """The same while a loop runs: its function has not come to what stands below, or gives its names new values."""
        if loop not in self._within:
            self._within[loop] = FileHolders(self.text, self.calls, loop)
        return self._within[loop]

    def reach(self, roots: Iterable[Place], without: frozenset[Place] = frozenset()) -> frozenset[Place]:
        """The variables, and those whose objects they may be, be parts of, or hold; of settings, those asked about.

        `without`: what an object was given by a method of it, as a meter its numbers, counts for nothing there.
        """
        asked = frozenset(roots)
        seen = self.holding(asked, without)
        return frozenset(one for one in seen if one in asked or not self.text.is_settings(one.name))

    def holding(self, roots: Iterable[Place], without: frozenset[Place] = frozenset()) -> frozenset[Place]:
        """The same with all settings."""
        asked = (frozenset(roots), without)
        if asked not in self._holding:
            self._holding[asked] = self._held_from(*asked)
        return self._holding[asked]

    def _held_from(self, roots: frozenset[Place], without: frozenset[Place]) -> frozenset[Place]:
        seen = set(roots)
        waiting = list(seen)
        while waiting:
            current = waiting.pop()
            steps = set(self._parts.get(current, ()))
            for one in {current, current.whole}:  # an attribute may be any part of what its object holds
                steps |= self._steps.get(one, set())
                steps |= self._given.get(one, set()) - without
            steps -= seen
            seen |= steps
            waiting += steps
        return frozenset(seen)

    def named(self, code: ast.AST) -> Mapping[Place, frozenset[Place]]:
        """The same for each variable that has a name in a function; it is asked for with each statement of a loop."""
        if code not in self._named:
            own = (one for one in self.known if self.text.is_named(one, code))
            self._named[code] = {one: self.reach([one]) for one in own}
        return self._named[code]

    def is_made_with(self, place: Place, method: str) -> bool:
        """Whether a variable gets, somewhere, an object of a class of the files that has such a method."""
        return any(
            method in self.text.scope(made).own
            for code in self._codes
            for node in nodes_of(code)  # type: ignore[arg-type]
            if isinstance(node, ast.Assign)
            for aim, value in (pair for one in node.targets for pair in self._values.pairs(one, node.value))
            if isinstance(value, ast.Call) and self.text.place(aim, code) == place
            for made in filter(None, [self.text.classes.get(last_name(value.func))])
        )

    @property
    def known(self) -> Iterator[Place]:
        """The variables that hold something."""
        return iter(dict.fromkeys((*self._steps, *self._given)))

    @cached_property
    def _parts(self) -> dict[Place, set[Place]]:
        """By variable, its attributes that hold something."""
        out: dict[Place, set[Place]] = {}
        for one in (*self._steps, *self._given):
            if one.attribute:
                out.setdefault(one.whole, set()).add(one)
        return out

    @cached_property
    def _steps(self) -> dict[Place, set[Place]]:
        out: dict[Place, set[Place]] = {}
        for code in self._codes:
            for node in nodes_of(code):  # type: ignore[arg-type]  # all that `around` has are pieces of code
                for target, values in self._bound(node, code) if node not in self._skipped else ():
                    if self._is_in_force(target, node, code):
                        kept = (one for one in values if one != target and self._is_in_force(one, node, code))
                        out.setdefault(target, set()).update(kept)
        return out

    @cached_property
    def _given(self) -> dict[Place, set[Place]]:
        """By variable, what its methods are handed."""
        out: dict[Place, set[Place]] = {}
        for code in self._codes:
            for node in nodes_of(code):  # type: ignore[arg-type]
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and last_name(node.func) not in PLAIN | SHOWING
                ):
                    target = self.text.place(self._values.receiver(node.func), code)
                    handed = {one for part in self._methods.kept(node, code) for one in self.held(part, code)}
                    handed = {one for one in handed if self._is_in_force(one, node, code)}
                    if target is not None and handed and self._is_in_force(target, node, code):
                        out.setdefault(target, set()).update(handed - {target})
        return out

    def _is_in_force(self, place: Place, node: ast.AST, code: ast.AST) -> bool:
        """Whether what a node says of a variable is about the object that it stands for while the loop runs."""
        if code is not self._code or place.owner is not code or place.name not in self.fresh:
            return True
        first, last = self.fresh[place.name]
        return first <= _line(node) <= last

    @cached_property
    def _codes(self) -> tuple[ast.AST, ...]:
        return tuple(self.text.around)

    def _bound(self, node: ast.AST, code: ast.AST) -> Iterator[tuple[Place, Iterable[Place]]]:
        """The variables that a node gives something, with what."""
        if isinstance(node, ast.Assign):
            pairs = (pair for aim in node.targets for pair in self._values.pairs(aim, node.value))
            yield from ((one, self.held(value, code)) for aim, value in pairs for one in self._aims(aim, code))
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            yield from ((one, self.held(node.value, code)) for one in self._aims(node.target, code))
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield from self._gone_through(node, code)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from ((one, self.held(node.context_expr, code)) for one in self._aims(node.optional_vars, code))
        elif isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
            yield Place(code, RESULT), self.held(node.value, code)
        elif isinstance(node, ast.Call):
            yield from self._handed(node, code)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from self._changed_by(node.value, code)
        elif isinstance(node, FUNCTIONS):
            yield from self._defaults(node, code)

    def _gone_through(
        self, node: ast.For | ast.AsyncFor | ast.comprehension, code: ast.AST
    ) -> Iterator[tuple[Place, Iterable[Place]]]:
        """What a loop gives its variables; the first that `enumerate` gives is a number."""
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        counted = isinstance(called, ast.Name) and called.id == "enumerate" and called.id not in self.text.functions
        target = node.target
        if counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        first = node.iter.args[0] if counted and isinstance(node.iter, ast.Call) and node.iter.args else node.iter
        values = frozenset[Place]().union(*(self.held(one, code) for one in content_of_bar(self.text, first, code)))
        yield from ((one, values) for one in self._aims(target, code))

    def _changed_by(self, node: ast.Call, code: ast.AST) -> Iterator[tuple[Place, Iterable[Place]]]:
        """What a call is made for whose result nobody takes: `heapq.heappush(queue, meter)`."""
        root = chain_of(node.func)[-1]
        fills = isinstance(root, ast.Name) and (root.id in self.text.libraries or root.id == "setattr")
        given = [self.text.place(one, code) for one in node.args] if fills else []
        if len(given) > 1 and given[0] is not None:
            yield given[0], {one for part in node.args[1:] for one in self.held(part, code)}

    def _defaults(self, node: FunctionNode, code: ast.AST) -> Iterator[tuple[Place, Iterable[Place]]]:
        yield from ((Place(node, one.arg), self.held(value, code)) for one, value in defaults(node.args))

    def _aims(self, aim: ast.expr, code: ast.AST) -> Iterator[Place]:
        if isinstance(aim, (ast.Tuple, ast.List)):
            for element in aim.elts:
                yield from self._aims(element, code)
            return
        found = self.text.place(aim, code)
        if found is not None:
            yield found

    def _handed(self, node: ast.Call, code: ast.AST) -> Iterator[tuple[Place, Iterable[Place]]]:
        """The parameters of functions of the file that a call fills, and the arguments that these put into others."""
        for into, what in self._fills.filled(node):
            place = self.text.place(into, code)
            if place is not None:
                yield place, self.held(what, code)
        for function in self.calls.called(node.func):
            names = own_parameters(function)
            for number, argument in enumerate(node.args):
                values = self.held(argument, code)
                aims = names if isinstance(argument, ast.Starred) else names[number : number + 1] or names[-1:]
                yield from ((Place(function, one), values) for one in aims)
            for word in node.keywords:
                aims = [word.arg] if word.arg in names else names[-1:] if word.arg else names
                yield from ((Place(function, one), self.held(word.value, code)) for one in aims if one)

    def held(self, node: ast.AST, code: ast.AST) -> frozenset[Place]:
        """The variables whose objects a value may be or hold."""
        return frozenset(self._held(node, code))

    def _held(self, node: ast.AST, code: ast.AST) -> Iterator[Place]:
        if self._values.is_plain(node):
            return
        if isinstance(node, ast.Lambda):
            yield from (one for one, _ in self.text.mentions(node.body, code))
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Starred, ast.Await)):
            found = self.text.place(node, code)
            plain = (
                found is not None
                and self.text.is_settings(found.name)
                and found.attribute not in ("", *self.text.stored)
            )
            if found is not None and not plain:
                yield found
        if isinstance(node, ast.Call) and not holds_nothing(node):
            yield from (Place(function, RESULT) for function in self.calls.called(node.func))
            if self._methods.only_hands_on(node, code):
                return
        for part in self._parts_of(node):
            yield from self._held(part, code)

    def _parts_of(self, node: ast.AST) -> Iterable[ast.AST]:
        """The parts of an expression that its value may be or hold."""
        if isinstance(node, ast.Call):
            owner = [self._values.receiver(node.func)] if isinstance(node.func, ast.Attribute) else []
            return () if holds_nothing(node) else (*_arguments(node), *owner)
        if isinstance(node, ast.Starred) and isinstance(node.value, (ast.List, ast.Tuple)):
            return (node.value,)
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Await)):
            return self.text.calls_in(node)
        if isinstance(node, COMPREHENSIONS):
            return (*syntax.children(node), *(one.iter for one in node.generators))
        if isinstance(node, ast.BinOp):
            return self._values.sides(node)
        held = isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.IfExp, ast.BoolOp, ast.NamedExpr))
        return syntax.children(node) if held else ()


def _line(node: ast.AST) -> int:
    """The first line of a node; of those that have none of their own, that of their first part."""
    return int(getattr(node, "lineno", 0)) or _line(syntax.children(node)[0])


def _not_in_force(code: ast.AST, loop: Loop, own: frozenset[str]) -> Iterator[ast.AST]:
    """The assignments to variables of a function that say nothing of them within its loop."""
    rebound = _bound_first(loop) if isinstance(code, FUNCTIONS) else frozenset()
    end = loop.end_lineno or loop.lineno
    nodes = list(nodes_of(code))  # type: ignore[arg-type]  # what has a loop is a piece of code
    loops = (one for one in nodes if isinstance(one, (ast.For, ast.AsyncFor, ast.While)) and one is not loop)
    inner = any(loop in syntax.walk(one) for one in loops)
    for node in nodes:
        names = [one.id for one in node.targets if isinstance(one, ast.Name)] if isinstance(node, ast.Assign) else []
        if not isinstance(node, ast.Assign) or len(names) < len(node.targets) or not own.issuperset(names):
            continue
        outside = not loop.lineno <= node.lineno <= end
        if (node.lineno > end and not inner) or (outside and rebound.issuperset(names)):
            yield node


def _bound_first(loop: Loop) -> frozenset[str]:
    """The names that get a value in each batch before it is looked at."""
    loads: dict[str, int] = {}
    for node in syntax.walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loads[node.id] = min(node.lineno, loads.get(node.id, node.lineno))
    bound = (node for node in loop.body if isinstance(node, ast.Assign))
    targets = (
        (one.id, node.end_lineno or node.lineno) for node in bound for one in node.targets if isinstance(one, ast.Name)
    )
    return frozenset(name for name, line in targets if loads.get(name, line + 1) > line)


def may_change(function: FunctionNode, number: int) -> bool:
    """Whether a function may change the argument of that number: it calls a method of it, stores into it, passes it."""
    names = parameters(function)
    name = names[min(number, len(names) - 1)] if names else ""
    for node in syntax.walk(function):
        inner: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name_of = last_name(node.func)
            inner = [node.func.value] if isinstance(node.func, ast.Attribute) and name_of not in PLAIN else []
            inner += [] if name_of in PLAIN | COMPUTING else node.args
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            inner = [node.value]
        if any(isinstance(part, ast.Name) and part.id == name for one in inner for part in syntax.walk(one)):
            return True
    return False


@dataclass(frozen=True)
class NamedHolders:
    """The same for the names of one function: variables, and attributes of the method's own object (`self.x`)."""

    holders: FileHolders
    code: ast.AST

    def holding(self, keys: Iterable[str]) -> frozenset[str]:
        """The names, and those of all that their objects may be or hold."""
        found = self.holders.reach(map(self._place, keys))
        return frozenset(keys) | {one.shown for one in found if self.holders.text.is_named(one, self.code)}

    def aliases(self, keys: Iterable[str], certain: bool = False) -> frozenset[str]:
        """The names, and those of all that may be, or hold, one of their objects; none of it is `certain`."""
        del certain
        wanted = frozenset(map(self._place, keys))
        return frozenset(keys) | {
            one.shown for one, reached in self.holders.named(self.code).items() if not reached.isdisjoint(wanted)
        }

    def other_names(self, keys: Iterable[str]) -> frozenset[str]:
        """The same: who may hold an object and who may be it are one to the text."""
        return self.aliases(keys)

    def _place(self, key: str) -> Place:
        name, _, attribute = key.partition(".")
        return Place(self.holders.text.owner(name, self.code) or self.code, name, attribute)


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(one.value for one in node.keywords)]
