"""The effects of a whole project, as far as it runs when one of its scripts is started.

In: a project, the files that are started or imported, and the functions that are asked about. Out: `Memory` with a
summary of each function that can run. Of these, one that nobody calls is looked at as if unknown code called it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tracelens.messages import say
from tracelens.patch.effects import classes
from tracelens.patch.effects.dispatch import RETURN, Arguments, Dispatch, Here
from tracelens.patch.effects.library import Library
from tracelens.patch.effects.memory import ELSEWHERE, PLAIN, Limits, Memory, Objects, TooLarge, Unit
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    SHOWS,
    Activation,
    Callbacks,
    Class,
    Duration,
    Function,
    Instance,
    Module,
    Object,
)
from tracelens.patch.effects.places import function_of
from tracelens.patch.effects.project import Project
from tracelens.patch.effects.scopes import Function as FunctionNode
from tracelens.patch.effects.statements import Statements

MAX_LOOKS = 100_000
"""Functions looked at, and their statements, each again when what it reads grew; then the project is too large to be
told."""
_BESIDE = re.compile(r"\b(?:queue|threading|multiprocessing|concurrent|asyncio)\b")
_AT_EXIT = re.compile(r"\batexit\b|\bexcepthook\b|\bsignal\.signal\b|\bweakref\.finalize\b|\bdef __del__\b")


@dataclass(frozen=True, eq=False)
class Analysis:
    """What is known of a project after all of it was looked at."""

    project: Project
    memory: Memory
    dispatch: Dispatch

    def value(self, unit: Module | Activation, node: ast.expr) -> Objects:
        """All objects that an expression of the unit can stand for."""
        return Statements(unit, unit, self.dispatch, self.project).value(node)

    @cached_property
    def callers(self) -> Mapping[Unit, Sequence[tuple[Unit, ast.AST]]]:
        """The units that call each unit, with the nodes that do."""
        out: dict[Unit, list[tuple[Unit, ast.AST]]] = {}
        for unit, summary in self.memory.summaries.items():
            for node, called in summary.calls:
                out.setdefault(called, []).append((unit, node))
        return out

    @cached_property
    def runs_at_exit(self) -> bool:
        """Whether a file that can run has code for the time when an exception or a signal has ended the training."""
        return any(_AT_EXIT.search(module.file.text) for module in self.memory.objects(Module))

    @cached_property
    def runs_beside(self) -> bool:
        """Whether a file that can run may start something that runs beside the loop."""
        return any(_BESIDE.search(module.file.text) for module in self.memory.objects(Module))

    @cached_property
    def timed_places(self) -> frozenset[ast.AST]:
        """The places that read the clocks of all durations."""
        return _places_of(self.memory.objects(Duration))

    @cached_property
    def shown_places(self) -> frozenset[ast.AST]:
        """The places that read the clocks of all durations that the project shows to people."""
        effects = (effect for summary in self.memory.summaries.values() for _, effect in summary.effects)
        return _places_of(one.target for one in effects if one.kind == SHOWS and isinstance(one.target, Duration))


def units_of(analysis: Analysis, tree: ast.AST, loop: ast.AST) -> list[Module | Activation]:
    """The function that has the loop, in all the ways in which it is called."""
    code = function_of(tree, loop)
    known = analysis.memory.summaries
    return [one for one in known if isinstance(one, (Module, Activation)) and code_of(one) is code]


def _places_of(durations: Iterable[Duration]) -> frozenset[ast.AST]:
    return frozenset(place for one in durations for place in (one.first, one.last))


def analyse(
    project: Project, started: Sequence[Path], asked: Sequence[FunctionNode], limits: Limits | None = None
) -> Analysis:
    """Run all that can run. `asked`: functions, the outer ones first, that must be among it; raises `TooLarge`."""
    runner = _Runner(project, limits)
    runner.run(started, asked)
    return Analysis(project, runner.memory, runner.dispatch)


class _Runner:
    def __init__(self, project: Project, limits: Limits | None = None) -> None:
        self.project = project
        self.memory = Memory(limits)
        self.dispatch = Dispatch(self.memory)
        self.library = Library(self.memory, self.dispatch)
        self.dispatch.libraries = self.library
        self.dispatch.first = self._first
        self._looked_at = 0
        self._ran: set[Module] = set()
        self._grown: dict[Callbacks, None] = {}
        """What a library calls of which more is known by now: looked at again after all functions."""

    def run(self, started: Sequence[Path], asked: Sequence[FunctionNode]) -> None:
        for path in dict.fromkeys(started):
            file = self.project.file(path)
            if file is not None and file.tree is not None:
                module = self.memory.make(Module, file)
                self.memory.write(module, "__name__", {PLAIN})
                self.memory.write(module, "__file__", {PLAIN})
                self.memory.summary(module)
        self.memory.summary(self.memory.make(Callbacks, ELSEWHERE, "later"))
        try:
            self._settle()
        except TooLarge as error:
            error.by_itself = True
            raise
        for function in asked:
            self._called_by_somebody(function)
            self._settle()
        self.memory.finish()
        self._settle()
        self.memory.lift_limits()

    def _settle(self) -> None:
        """Look at all units until nothing grows any more."""
        changes = -1
        while changes != self.memory.changes:
            self._look_at_waiting()
            changes = self.memory.changes
            grown, self._grown = self._grown, {}
            for unit in grown:
                self.library.callbacks.look_again(unit)
            for unit in [one for one in self.memory.summaries if isinstance(one, Callbacks)]:
                self.library.callbacks.look_around(unit)
            if self.memory.waiting:
                changes = -1

    def _look_at_waiting(self) -> None:
        units, parts = self.memory.waiting.units, self.memory.waiting.parts
        while self.memory.waiting:
            self._looked_at += 1
            if self._looked_at > MAX_LOOKS:
                raise TooLarge
            if units:
                unit = next(iter(units))
                del units[unit]
                self._look_at(unit)
            else:
                part = next(iter(parts))
                Statements(part.unit, part.frame, self.dispatch, self.project, alone=True).look_at(part)

    def _first(self, module: Module) -> None:
        if module in self.memory.waiting.units and module not in self._ran:
            self._ran.add(module)
            del self.memory.waiting.units[module]
            self._look_at(module)

    def _look_at(self, unit: Unit) -> None:
        if isinstance(unit, Callbacks):
            self._grown[unit] = None
            return
        statements = Statements(unit, unit, self.dispatch, self.project)
        if isinstance(unit, Module):
            assert unit.file.tree is not None
            statements.run(unit.file.tree.body)
        elif isinstance(unit.function.node, ast.Lambda):
            self.memory.write(unit, RETURN, statements.value(unit.function.node.body))
        else:
            statements.run(unit.function.node.body)

    def _called_by_somebody(self, node: FunctionNode) -> None:
        """Let unknown code call the function, if nobody else does."""
        functions = [one for one in self.memory.objects(Function) if one.node is node]
        known = {one.function for one in self.memory.objects(Activation)}
        if any(one in known for one in functions):
            return
        name = getattr(node, "name", "a lambda")
        for function in functions:
            given = {
                one: self.memory.unknown(say("`{one}`, which `{name}` is handed,", one=one, name=name))
                for one in _parameters(node)
            }
            for receiver in self._receivers(function):
                if receiver is not None:
                    given.pop(next(iter(given), ""), None)
                self.dispatch.run(function, receiver, Arguments(named=given), Here(function.module, node))
                self.memory.summary(self.memory.make(Activation, function, receiver, None if receiver else node))

    def _receivers(self, function: Function) -> Iterator[Object | None]:
        """Objects of the class and of every class made of it, made by unknown code unless the project makes one."""
        if function.owner is None or "staticmethod" in classes.marks(function):
            yield None
            return
        for made in self.memory.objects(Class):
            if function.owner in classes.order(made, self.memory, made.module):
                if "classmethod" in classes.marks(function):
                    yield made
                    continue
                known = [one for one in self.memory.objects(Instance) if one.made is made]
                why = say("what `{name}` is made of", name=made.node.name)
                if not known:
                    self.dispatch.instantiate(
                        made, Arguments(rest=self.memory.unknown(why)), Here(made.module, made.node)
                    )
                yield from known or [one for one in self.memory.objects(Instance) if one.made is made]


def _parameters(node: FunctionNode) -> list[str]:
    given = node.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
