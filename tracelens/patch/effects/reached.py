"""What pieces of a loop do behind the names in them, told by the names that the loop's own function has for it.

In: the effects of a project, and a loop. Out: `Reached`, which is asked by places in the loop: what the code that is
called there looks at and changes, what an object holds, and under which names it is known. A name is a variable, or an
attribute of the method's own object (`self.x`); what has no name in the loop's function gets one of its own.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce

from tracelens.patch.effects import names, syntax
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.deeds import Deed, Deeds, is_occasional, is_time_of_day
from tracelens.patch.effects.holding import NumberLists, may_hold_tensors
from tracelens.patch.effects.implicit import is_loaded
from tracelens.patch.effects.kind import UNKNOWN, Kind, meet
from tracelens.patch.effects.kinds import Kinds
from tracelens.patch.effects.memory import ANY_DATA, DATA, SHARED, WEIGHTS, Unit, is_tensor
from tracelens.patch.effects.objects import (
    CLOCK,
    COLLECTIVE,
    DISK_READ,
    DISK_WRITE,
    NAMES,
    OUTPUT,
    RANDOM,
    READS,
    WRITES,
    Activation,
    Class,
    Container,
    Effect,
    Instance,
    Module,
    Name,
    Object,
    Thing,
    Unknown,
)
from tracelens.patch.effects.places import Loop, Span, nodes_in, span_of

OUTPUT_KEY, FILES_KEY, EVERYTHING_KEY = "<output>", "<files>", "<everything>"
_OF_KINDS: Mapping[str, str] = {OUTPUT: OUTPUT_KEY, DISK_READ: FILES_KEY, DISK_WRITE: FILES_KEY, NAMES: EVERYTHING_KEY}
_NAME_CALLERS = ("<logger>", "logging.", "loguru.", "absl.", "warnings.")
_NAMELESS = (DATA, ANY_DATA, WEIGHTS)
"""In place of many tensors: who touches one of them need not meet who touches another."""


@dataclass(frozen=True)
class Behind:
    """`seen` and `changed` are names; `draws`: of random numbers. `bound`: what ties it to its moment, in words.

    `of_project`: functions of the project are called.
    """

    seen: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    draws: bool = False
    bound: str = ""
    of_project: bool = False

    def __or__(self, other: Behind) -> Behind:
        return Behind(
            self.seen | other.seen,
            self.changed | other.changed,
            self.draws or other.draws,
            self.bound or other.bound,
            self.of_project or other.of_project,
        )


NOTHING = Behind()


class Reached:
    """Asks about one loop, in all the ways in which its function is called."""

    def __init__(self, analysis: Analysis, units: Iterable[Module | Activation], loop: Loop) -> None:
        self.memory = analysis.memory
        self.units = tuple(units)
        self.loop = loop
        self.analysis = analysis
        self._known: dict[Span, Behind] = {}
        self._told_keys: dict[Effect, frozenset[str]] = {}

    @property
    def is_coarse(self) -> bool:
        """Whether few objects are told apart."""
        return self.memory.limits.coarse

    def behind(self, span: Span) -> Behind:
        """What the code that is called in a piece of the loop's function does."""
        if span not in self._known:
            first, last = (
                bisect_left(self._pieces, at, key=lambda one: _start(one[0])) for at in (_start(span), _end(span))
            )
            inside = (behind for place, behind in self._pieces[first:last] if _end(place) <= _end(span))
            self._known[span] = reduce(Behind.__or__, inside, NOTHING)
        return self._known[span]

    def at(self, span: Span) -> Behind:
        """The same for the node alone that stands there, without those within it."""
        return next((behind for place, behind in self._pieces if place == span), NOTHING)

    @cached_property
    def between(self) -> Behind:
        """What runs between two batches: the loop's iterator."""
        return self._nodes.get(self.loop, NOTHING)

    def holding(self, keys: Iterable[str]) -> frozenset[str]:
        """The names, and those of all that their objects hold; for what comes out of a file see `other_names`."""
        objects = {one for key in keys for one in self._objects.get(key, ())}
        reached = self.memory.reach(objects, through_unknown=False)
        told = (one for one in reached if not is_loaded(one) or objects == {one})
        return frozenset(keys).union(*(self._names.get(one, ()) for one in told))

    def aliases(self, keys: Iterable[str], certain: bool = False) -> frozenset[str]:
        """The names, and those of all that is, or holds, one of their objects.

        `certain`: without what an object of a library holds of which no more is known than what it was given.
        """
        wanted = frozenset(one for key in keys for one in self._objects.get(key, ()))
        held = self._held_for_certain if certain else self._held
        return frozenset(keys).union(key for key, objects in held.items() if not wanted.isdisjoint(objects))

    def other_names(self, keys: Iterable[str]) -> frozenset[str]:
        """The names, and those that may stand for the same object.

        What comes out of a file is one object in place of many: it makes two names one only where the name that is
        asked for stands for nothing else, not where a list that the project makes is hardly told from it.
        """
        objects = [self._objects.get(key, frozenset()) for key in keys]
        wanted = {one for those in objects for one in those if len(those) == 1 or not is_loaded(one)}
        return frozenset(keys).union(name for one in wanted for name in self._names.get(one, ()))

    def kind(self, span: Span) -> Kind:
        """What an expression of the loop certainly is, however its function is called."""
        node = self._expression(span)
        if node is None:
            return UNKNOWN
        return meet(self._kinds.asked(unit, node) for unit in self.units)

    def may_name_caller(self, span: Span) -> bool:
        """Whether what is called there may look at who calls it, as a logger does; so may what nobody can tell."""
        node = self._expression(span)
        called = self._objects_of(node.func if isinstance(node, ast.Call) else None)
        return not called or any(
            isinstance(one, Unknown) or (isinstance(one, Name) and one.full.startswith(_NAME_CALLERS)) for one in called
        )

    def may_change(self, span: Span) -> bool:
        """Whether a tensor of the loop may be changed in place: in the loop, or anywhere if it is told from others."""
        objects = self._objects_of(self._expression(span))
        nameless = {SHARED if isinstance(one, Unknown) else one for one in objects if not is_tensor(one)}
        return not nameless.isdisjoint(self._filled_in_loop) or not objects.isdisjoint(self._filled)

    def may_hold_tensors(self, span: Span) -> bool:
        """Whether a value may be a list or dict with tensors in it, or nobody can tell what it is."""
        objects = self._objects_of(self._expression(span))
        return not objects or any(may_hold_tensors(one, self.memory, self._lists.has) for one in objects)

    def _objects_of(self, node: ast.expr | None) -> set[Object]:
        """What an expression of the loop can stand for, however its function is called."""
        return {one for unit in self.units if node is not None for one in self.analysis.value(unit, node)}

    def _expression(self, span: Span) -> ast.expr | None:
        """The expression that stands there, also where it is all of a statement."""
        node = next((one for one in nodes_in(self.loop, span) if span_of(one) == span), None)
        node = node.value if isinstance(node, ast.Expr) else node
        return node if isinstance(node, ast.expr) else None

    @cached_property
    def _filled(self) -> frozenset[Object]:
        """The tensors that any code of the project changes in place."""
        effects = (effect for summary in self.memory.summaries.values() for _, effect in summary.effects)
        filled = (one.target for one in effects if _fills(one))
        return frozenset(one for one in filled if one is not None and is_tensor(one))

    @cached_property
    def _filled_in_loop(self) -> frozenset[Object]:
        """What stands for many tensors, of which the loop changes some in place."""
        inside = tuple(syntax.walk(self.loop))
        wanted = frozenset(inside)
        deeds = (deed for unit in self.units for deed in Deeds(self.memory, unit, ()).chosen_deeds(wanted.__contains__))
        found = {deed.effect.target for deed in deeds if _fills(deed.effect) and not deed.perhaps}
        owners = [one for one in map(filled_in_place, inside) if one is not None]
        found |= {one for unit in self.units for node in owners for one in self.analysis.value(unit, node)}
        return frozenset(one for one in found if one in (*_NAMELESS, SHARED))

    @cached_property
    def _kinds(self) -> Kinds:
        return Kinds(self.analysis)

    @cached_property
    def _lists(self) -> NumberLists:
        return NumberLists(self.analysis, self._kinds, self._filled)

    def unknown(self, key: str) -> str:
        """Why nobody can tell what the name stands for, in words; empty where somebody can."""
        return " ".join(one.why for one in self._values.get(key, ()) if isinstance(one, Unknown))

    def stands_for_objects(self, key: str) -> bool:
        """Whether the name stands for something that can be changed in place."""
        return bool(self._objects.get(key))

    # ------------------------------------------------------------------------------------------------------- the names

    @cached_property
    def _objects(self) -> dict[str, frozenset[Object]]:
        """By name, the objects that it can stand for and that can be changed."""
        return {key: frozenset(filter(_can_change, values)) for key, values in self._values.items()}

    @cached_property
    def _values(self) -> dict[str, frozenset[Object]]:
        out: dict[str, frozenset[Object]] = {}
        for unit in self.units:
            for key, objects in (*self._variables(unit), *self._attributes(unit)):
                out[key] = out.get(key, frozenset()).union(objects)
        return out

    @cached_property
    def _names(self) -> dict[Object, set[str]]:
        out: dict[Object, set[str]] = {}
        for key, objects in self._objects.items():
            for one in objects:
                out.setdefault(one, set()).add(key)
        return out

    @cached_property
    def _held(self) -> dict[str, frozenset[Object]]:
        """By name, all that can be reached from it."""
        return self._reached_by_name(through_holders=True)

    @cached_property
    def _held_for_certain(self) -> dict[str, frozenset[Object]]:
        """By name, what can be reached through objects of which it is known what they do with what they hold."""
        return self._reached_by_name(through_holders=False)

    def _reached_by_name(self, *, through_holders: bool) -> dict[str, frozenset[Object]]:
        found = partial(self.memory.reach, through_unknown=False, through_holders=through_holders)
        return {key: frozenset(found(objects)) for key, objects in self._objects.items()}

    def _variables(self, unit: Module | Activation) -> Iterator[tuple[str, Iterable[Object]]]:
        frame: Module | Activation | Class = unit
        while True:
            for name, objects in self.memory.fields.get(frame, {}).items():
                if names.home(name, unit, self.memory) is frame:
                    yield name, objects - self._receivers
            if isinstance(frame, Module):
                return
            frame = names.parent(frame)

    def _attributes(self, unit: Module | Activation) -> Iterator[tuple[str, Iterable[Object]]]:
        receiver = unit.receiver if isinstance(unit, Activation) else None
        if receiver is not None:
            yield from ((f"self.{name}", held) for name, held in self.memory.fields.get(receiver, {}).items())

    @cached_property
    def _receivers(self) -> frozenset[Object]:
        """The objects whose method has the loop: `self` is told by its attributes."""
        return frozenset(one.receiver for one in self.units if isinstance(one, Activation) and one.receiver is not None)

    # ------------------------------------------------------------------------------------------------------- the deeds

    @cached_property
    def _pieces(self) -> list[tuple[Span, Behind]]:
        """The nodes of the loop's function that call something, by their places."""
        found = ((span_of(node), behind) for node, behind in self._nodes.items())
        return sorted(((span, behind) for span, behind in found if span is not None), key=lambda one: one[0])

    @cached_property
    def _nodes(self) -> dict[ast.AST, Behind]:
        out: dict[ast.AST, Behind] = {}
        for unit in self.units:
            asked = Deeds(self.memory, unit, ())
            found: dict[Unit, Behind] = {}
            own: dict[Unit, Behind] = {}
            summary = self.memory.summaries[unit]
            for node, called in summary.calls:
                if node in summary.doubtful:
                    continue  # a method of a tensor, unless it is something else; the proof asks for that
                if called not in found:
                    of_project = Behind(of_project=isinstance(called, Activation))
                    found[called] = self._together(asked, called, own) | of_project
                out[node] = out.get(node, NOTHING) | found[called]
        return out

    def _together(self, asked: Deeds, called: Unit, own: dict[Unit, Behind]) -> Behind:
        """What a unit does with all that it calls for certain; `own`: what each does itself, as far as it is known."""
        seen, changed, draws, bound = set[str](), set[str](), False, ""
        for unit in asked.certain_units(called):
            if unit in self.units:
                continue
            if unit not in own:
                own[unit] = self._told(asked.own(unit))
            seen |= own[unit].seen
            changed |= own[unit].changed
            draws, bound = draws or own[unit].draws, bound or own[unit].bound
        return Behind(frozenset(seen), frozenset(changed), draws, bound)

    def _told(self, deeds: Iterable[Deed]) -> Behind:
        seen, changed, draws, bound = set[str](), set[str](), False, ""
        for deed in deeds:
            kind = deed.effect.kind
            if kind in (READS, WRITES):
                keys = self._keys(deed.effect)
                seen |= keys
                changed |= keys if kind == WRITES else frozenset()
            elif kind in _OF_KINDS and not is_occasional(deed):
                seen.add(_OF_KINDS[kind])
            elif kind == COLLECTIVE or (kind == CLOCK and not is_time_of_day(deed)):
                bound = kind
            draws = draws or kind == RANDOM
        return Behind(frozenset(seen), frozenset(changed), draws, bound)

    def _keys(self, effect: Effect) -> frozenset[str]:
        """The names of what an effect is about."""
        if effect not in self._told_keys:
            self._told_keys[effect] = frozenset(self._keys_told(effect))
        return self._told_keys[effect]

    def _keys_told(self, effect: Effect) -> Iterator[str]:
        target = effect.target
        if effect.deep and target is not None:
            for one in self.memory.reach([target], through_unknown=False):
                yield from self._keys_of(one)
        elif target in self._receivers:
            yield f"self.{effect.field}"
        elif isinstance(target, (Module, Activation)):
            home = any(names.home(effect.field, unit, self.memory) is target for unit in self.units)
            yield effect.field if home else f"<{target.number}.{effect.field}>"
        elif target is DATA and not effect.field.startswith(("[", "<")):
            if effect.kind == READS and not self.memory.has(DATA, effect.field):
                return  # nobody ever stores it, so that nobody can see another one
            yield from (key for key, values in self._values.items() if DATA in values)
        elif target is not None:
            yield from self._keys_of(target)

    def _keys_of(self, one: Object) -> Iterable[str]:
        if one in self._receivers:
            return ("self",)
        known = self._names.get(one, set())
        told = {key for key in known if key in self._mentioned or key.startswith("self.")}
        return told or known or ((f"<{one.number}>",) if _can_change(one) else ())

    @cached_property
    def _mentioned(self) -> frozenset[str]:
        """The variables of the loop. What has one is known by it alone: `for meter in meters:` behind the loop would
        make one of all of them."""
        return frozenset(node.id for node in ast.walk(self.loop) if isinstance(node, ast.Name))


def _fills(effect: Effect) -> bool:
    """Whether an effect is that of changing an object in place, not that of giving a variable another one."""
    return effect.kind == WRITES and effect.field.startswith(("<", "["))


def filled_in_place(node: ast.AST) -> ast.expr | None:
    """What `x.fill_(7)` changes: of data that nobody tells from other data no change is entered."""
    method = node.func if isinstance(node, ast.Call) else None
    if not isinstance(method, ast.Attribute) or not method.attr.endswith("_") or method.attr.endswith("__"):
        return None
    return method.value


def _can_change(one: Object) -> bool:
    """Whether an object is told apart from others, and somebody could see it changed."""
    return isinstance(one, (Instance, Container, Thing)) and one not in _NAMELESS


def _start(place: Span) -> tuple[int, int]:
    return place.line, place.column


def _end(place: Span) -> tuple[int, int]:
    return place.end_line, place.end_column
