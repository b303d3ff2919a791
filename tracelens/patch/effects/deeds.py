"""What a piece of a loop does in the end: its own effects and those of all that it calls.

In: `Memory`, and the nodes of a unit that belong to the piece. Out: `Deed`s, each with the node of the loop from which
it comes and the place that does it. Variables and objects of one call, which nobody else can have, are left out.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tracelens.patch.effects import syntax
from tracelens.patch.effects.implicit import is_loaded
from tracelens.patch.effects.memory import ANY_DATA, ANY_KEY, SHARED, Memory, Unit, is_tensor
from tracelens.patch.effects.names import code_of, module_of, parent
from tracelens.patch.effects.objects import (
    READS,
    WRITES,
    Activation,
    Callbacks,
    Class,
    Container,
    Effect,
    Instance,
    Module,
    Name,
    Object,
    Thing,
    UnitSummary,
)
from tracelens.patch.effects.places import Span, path_to

_TIMES_OF_DAY = (
    *("strftime", "ctime", "asctime", "localtime", "gmtime", "fromtimestamp"),
    *(".now", ".utcnow", ".today", ".datetime64"),
)
Elsewhere = tuple[tuple[Path, Span], ...]


@dataclass(frozen=True)
class Deed:
    """`at`: the node of the loop; `node`, in `unit`: what does it in the end.

    `perhaps`: only where code that nobody can tell calls it, or does it itself, or where the text means something else.
    `elsewhere`: at a time of its own, as threads and handlers of signals do.
    """

    at: ast.AST
    unit: Unit
    node: ast.AST
    effect: Effect
    perhaps: bool = False
    elsewhere: bool = False

    @property
    def place(self) -> tuple[str, int]:
        """File and line of what does it; of the loop's node where that has none."""
        line = getattr(self.node, "lineno", 0)
        if isinstance(self.unit, Callbacks) or not line:
            return "", getattr(self.at, "lineno", 0)
        return module_of(self.unit).file.shown, line


class Deeds:
    """Asks memory for one unit. `drained`: pieces of files whose effects do not count."""

    def __init__(self, memory: Memory, unit: Module | Activation, drained: Elsewhere) -> None:
        self.memory = memory
        self.unit = unit
        self.drained = drained

    def chosen_deeds(self, chosen: Callable[[ast.AST], bool]) -> list[Deed]:
        """What the nodes of the unit do that are chosen."""
        summary = self.memory.summaries[self.unit]
        nodes = dict.fromkeys(node for node, _ in (*summary.effects, *summary.calls))
        wanted = frozenset(filter(chosen, nodes))
        own = [(node, effect) for node, effect in summary.effects if node in wanted]
        out = [Deed(node, self.unit, node, effect, _is_doubtful(summary, node, effect)) for node, effect in own]
        out += self._behind(
            (node, called, node in summary.doubtful) for node, called in summary.calls if node in wanted
        )
        return [one for one in out if self._counts(one)]

    def behind(self, at: ast.AST, called: Unit) -> list[Deed]:
        """What a unit does that runs beside the loop."""
        return [one for one in self._behind([(at, called, False)]) if self._counts(one)]

    def certain_units(self, called: Unit) -> Iterator[Unit]:
        """The units that run where one is called, without those that only unknown code may call."""
        seen = {called}
        waiting = deque(seen)
        while waiting:
            unit = waiting.popleft()
            if is_of_anything(unit, self.memory):
                continue
            yield unit
            summary = self.memory.summaries[unit]
            for node, inner in summary.calls:
                if inner not in seen and node not in summary.doubtful:
                    seen.add(inner)
                    waiting.append(inner)

    def own(self, unit: Unit) -> Iterator[Deed]:
        """What a unit does itself that others can see."""
        summary = self.memory.summaries[unit]
        certain = (key for key in summary.effects if not _is_doubtful(summary, *key))
        return filter(self._counts, (Deed(node, unit, node, effect) for node, effect in certain))

    def _behind(self, calls: Iterable[tuple[ast.AST, Unit, bool]]) -> Iterator[Deed]:
        """What is called for certain first, so that nothing of it counts as called by unknown code alone.

        `calls`: with whether the call is doubtful. Another call of the loop's own function has variables of its own.
        """
        seen: set[Unit] = set()
        certain, perhaps = deque[tuple[ast.AST, Unit]](), deque[tuple[ast.AST, Unit]]()
        for at, unit, doubtful in calls:
            (perhaps if doubtful else certain).append((at, unit))
        while certain or perhaps:
            known = bool(certain)
            at, unit = (certain or perhaps).popleft()
            if unit in seen:
                continue
            if known and is_of_anything(unit, self.memory):
                perhaps.append((at, unit))
                continue
            seen.add(unit)
            summary = self.memory.summaries[unit]
            for node, effect in summary.effects:
                if not self._is_drained(unit, node) and not (unit is self.unit is effect.target):
                    yield Deed(at, unit, node, effect, not known or _is_doubtful(summary, node, effect))
            for node, one in summary.calls:
                if not self._is_drained(unit, node):
                    (certain if known and node not in summary.doubtful else perhaps).append((at, one))
            if _calls_anything(unit):
                yield from (Deed(at, unit, at, Effect(kind, SHARED, "", deep=True), True) for kind in (READS, WRITES))

    def _is_drained(self, unit: Unit, node: ast.AST) -> bool:
        if isinstance(unit, Callbacks) or not self.drained:
            return False
        path = module_of(unit).file.path
        return any(path == where and span.holds(node) for where, span in self.drained)

    def _counts(self, deed: Deed) -> bool:
        """Whether others can see what the effect is about."""
        target = deed.effect.target
        if deed.effect.deep:
            return True
        if isinstance(target, Activation):
            return target in self._frames or target is not deed.unit
        if isinstance(target, (Instance, Container)) or (isinstance(target, Thing) and target.site is not None):
            return target in self.visible or (is_tensor(target) and ANY_DATA in self.visible)
        return True

    @cached_property
    def _frames(self) -> frozenset[Object]:
        """The loop's own variables, those of the functions around it and of the module."""
        out: set[Object] = {self.unit}
        current: Module | Activation | Class = self.unit
        while not isinstance(current, Module):
            current = parent(current)
            out.add(current)
        return frozenset(out)

    @cached_property
    def visible(self) -> frozenset[Object]:
        """All objects that the loop's variables, modules and unknown code can reach, also through functions."""
        roots = {*self._frames, *self.memory.objects(Module), *self.memory.objects(Class), SHARED}
        roots |= {one for one in self.memory.objects(Name) if one.receiver is None}
        seen = set(self.memory.reach(roots))
        while True:
            frames = {frame for one in seen for frame in closed_over(one)} - seen
            if not frames:
                return frozenset(seen)
            seen |= set(self.memory.reach(frames))


def _calls_anything(unit: Unit) -> bool:
    """Whether the unit stands for what unknown code may call."""
    return isinstance(unit, Callbacks) and unit.holder is SHARED


def is_of_anything(unit: Unit, memory: Memory) -> bool:
    """Whether nobody can tell if what the unit stands for is called: by unknown code, through an object of a library
    of which no more is known than what it has, or as one of the project's objects that a file may have."""
    if not isinstance(unit, Callbacks) or _calls_anything(unit):
        return _calls_anything(unit)
    if is_loaded(unit.holder):
        return True
    direct = memory.fields.get(unit.holder, {}).get(ANY_KEY, ())
    return any(isinstance(one, Thing) and one.kind == "holder" for one in direct)


def _is_doubtful(summary: UnitSummary, node: ast.AST, effect: Effect) -> bool:
    """Whether an effect is that of a change in place that is only likely: of what may as well be a number, or of a
    call that is a tensor's unless it is something else's, with all that the other would look at."""
    likely = node in summary.doubtful or (node, effect.target) in summary.may_change
    within = effect.deep and not effect.field and effect.kind in (READS, WRITES)
    return likely and (within or effect.field[:1] in ("[", "<"))


def is_occasional(deed: Deed) -> bool:
    """Whether another function does it only under a condition, or only at times of its own: a handler, a thread.

    What it does in every so many calls comes for certain.
    """
    if isinstance(deed.unit, Callbacks):
        return False
    if is_warning(deed.node):
        return True
    around = path_to(code_of(deed.unit), deed.node)
    conditions = [one for one in around if isinstance(one, (ast.If, ast.IfExp, ast.ExceptHandler))]
    return deed.elsewhere or not all(map(comes_again, conditions))


def is_warning(node: ast.AST) -> bool:
    """`warnings.warn(…)`: Python shows it once for each place that gives it, unless it is told otherwise."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"


def is_of_an_error(deed: Deed) -> bool:
    """Whether it is done where an error or a signal came, or at a time of its own: what is lost then is told apart."""
    if isinstance(deed.unit, Callbacks) or deed.elsewhere:
        return True
    return any(isinstance(one, ast.ExceptHandler) for one in path_to(code_of(deed.unit), deed.node))


def comes_again(condition: ast.AST) -> bool:
    """Whether a condition counts: `if step % 50 == 0`."""
    test = getattr(condition, "test", None)
    return isinstance(test, ast.expr) and any(isinstance(part, ast.Mod) for part in syntax.walk(test))


def is_time_of_day(deed: Deed) -> bool:
    """Whether a clock is read for a time of day: what people read then says when it was written."""
    if isinstance(deed.unit, Callbacks):
        return False
    calls = [one for one in path_to(code_of(deed.unit), deed.node) if isinstance(one, ast.Call)]
    return any(ast.unparse(one.func).endswith(_TIMES_OF_DAY) for one in calls)


def closed_over(one: Object) -> Iterator[Object]:
    """The variables that a function takes from around it."""
    frame = getattr(one, "frame", None)
    if isinstance(frame, (Module, Activation, Class)):
        yield frame


def deep(targets: Iterable[Object], memory: Memory) -> frozenset[Object]:
    """The objects and all that they hold."""
    return frozenset(memory.reach(targets))
