"""What each object's fields can hold, who reads them, and what each function does: the state of one analysis.

Everything here only grows. A statement whose field grew after it was read is looked at again, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tracelens.messages import say
from tracelens.patch.effects import objects
from tracelens.patch.effects.closures import Closure, Search
from tracelens.patch.effects.objects import (
    Callbacks,
    Class,
    Container,
    Duration,
    Effect,
    Moment,
    Object,
    Plain,
    Slice,
    Thing,
    UnitSummary,
    Unknown,
    numbered,
)
from tracelens.patch.effects.scopes import Code, Scope, scope_of
from tracelens.patch.effects.waiting import Waiting

Objects = objects.Objects
Unit = objects.Unit
Reader = objects.Reader
NONE: Objects = frozenset()
_ALL = "<all>"
MEMBERS = "<members>"
"""The field of a class with the members of an enumeration."""
CLASS = "__class__"
"""Holds the class of an object, or what a library's object was made by."""
BASES = "<bases>"
"""The fields with a class's bases: this and their number."""
ANY_KEY = "[]"
"""The field of an element whose key is not a constant text."""
KEYS = "<keys>"
"""The field of a dict with the objects that are its keys; numbers, texts and tensors are not kept there."""
PART = "[:]"
"""In place of a key: a slice. It is no field, since a part of a list is another list with the same elements."""
SHARED = Unknown(say("something that is not known"))
"""Its fields hold all that was handed to unknown code, and what was stored in unknown objects."""
MANY = Unknown(say("one of very many things"))
"""In place of all that a field can hold, where that is more than `Limits.held`."""
MAX_CALLS = 80_000
"""Calls of libraries that are followed, each again when what it is given grew; 24 files with fifty networks: 12,000."""
MAX_EFFECTS = 50_000
"""Effects that are entered, the same ones again included, in about a second. Of 18 scripts of public projects one has
an answer below (11,000), and one more would have it at 87,000: what the coarse analysis says of it, too."""
MAX_HELD = 64
COARSE_EFFECTS = 250_000
"""About six seconds. Of the 18 scripts the largest that has an answer enters 226,000."""
COARSE_HELD = 6
"""For what is too large otherwise. Objects that a name cannot be told to stand for spread from call to call, until each
name stands for dozens: then one object in place of them all says the same, and is looked at once."""

PLAIN = Plain()
SLICE = Slice()
DATA = Thing("data", None, None)
"""Tensors, arrays, and batches of them."""
ANY_DATA = Thing("data", "any", None)
"""In place of the tensors that a field can hold, where there are more than `MAX_TENSORS`."""
WEIGHTS = Thing("data", "weights", None)
"""All that torch keeps of a training: parameters, buffers, gradients, what optimizers have; many ways lead to them."""
LAYER = Thing("module", "layer", None)
"""All layers of torch that have nothing of the project: told apart by their weights alone, which are one object."""
IN_PLACE_LAYER = Thing("module", "layer_in_place", None)
"""The same, of those that change what they are given: `nn.ReLU(inplace=True)`."""
REPLACED = Thing("replaced", "replaced", None)
"""Holds the functions that the project puts in the place of a library's, each under its name."""
HOOKS = Thing("hooks", "hooks", None)
"""Holds what torch calls on its own: hooks of modules and tensors, `backward` of the project's functions."""
RAISED = Thing("raised", "raised", None)
"""Holds the exceptions that the project raises."""
ELSEWHERE = Thing("later", "later", None)
"""Holds what runs at any time: handlers of signals, functions of threads."""
_OF_ALL = (
    *(PLAIN, SLICE, DATA, ANY_DATA, WEIGHTS, LAYER, IN_PLACE_LAYER, REPLACED, HOOKS, RAISED, ELSEWHERE, SHARED, MANY),
)
"""The objects that all analyses share."""
_FIRST_OWN = len([numbered(one, number) for number, one in enumerate(_OF_ALL)])
"""The number of the first object that an analysis makes itself."""
MAX_TENSORS = 6
_Made = TypeVar("_Made", bound=Object)


@dataclass(frozen=True)
class Limits:
    """Of one analysis: the objects that a field tells apart, the effects that are entered."""

    held: int
    effects: int

    @property
    def coarse(self) -> bool:
        """Whether names of few things already stand for anything: what is found then is no proof."""
        return self.held < MAX_HELD


def all_limits() -> tuple[Limits, ...]:
    """The limits that are tried, one after the other."""
    return Limits(MAX_HELD, MAX_EFFECTS), Limits(COARSE_HELD, min(COARSE_EFFECTS, 5 * MAX_EFFECTS))


class TooLarge(Exception):
    """The project has more functions, or they call one another in more ways, than can be followed.

    `by_itself`: the started files alone are, whichever functions are asked about.
    """

    by_itself = False


@dataclass(eq=False)
class SearchResult:
    """What a search found, the fields that it read, and who has asked for it since."""

    objects: Objects
    read: tuple[tuple[Object, str], ...]
    readers: set[Reader] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class SeenFields:
    """What a search sees of the memory; it enters what it read."""

    memory: Memory
    entered: dict[tuple[Object, str], None]

    def read(self, owner: Object, name: str) -> Objects:
        self.entered[owner, name] = None
        return self.memory.content(owner, name)

    def names(self, owner: Object) -> tuple[str, ...]:
        self.entered[owner, _ALL] = None
        return tuple(self.memory.fields.get(owner, ()))


BoundedSearch = Callable[[Object, SeenFields], Objects]
"""What goes through memory from an object on, and finds others."""


class Memory:
    """The fields of all objects, the summaries of all units, and the units that are to be looked at (again)."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or all_limits()[0]
        self.fields: dict[Object, dict[str, set[Object]]] = {}
        self.summaries: dict[Unit, UnitSummary] = {}
        self.waiting = Waiting()
        self.final = False
        """Whether all that can be told is told: an empty value is then one that nobody can tell."""
        self._readers: dict[tuple[Object, str], set[Reader]] = {}
        self._contents: dict[tuple[Object, str], Objects] = {}
        """What fields hold, as it was last given out; dropped where one grows."""
        self._findings: dict[tuple[Object, BoundedSearch], SearchResult] = {}
        self._found_through: dict[tuple[Object, str], set[tuple[Object, BoundedSearch]]] = {}
        """The searches that read each field, with the objects at which they started."""
        self._closures: dict[Callable[[Object, str], bool], Closure] = {}
        self._objects: dict[tuple[Any, ...], Object] = {}
        self._of_kind: dict[type[Object], list[Object]] = {}
        self._scopes: dict[Code, Scope] = {}
        self.changes = 0
        self._calls_left = MAX_CALLS
        self.effects_left = self.limits.effects
        self.changed_bases = 0
        self.orders: dict[Object, tuple[int, tuple[Object, ...]]] = {}
        """The order of each class's bases, with the number of changes to bases at which it was worked out."""
        self._shared: tuple[int, Objects] = (-1, NONE)

    def make(self, kind: type[_Made], *parts: Any) -> _Made:
        """The one object of these parts."""
        known = self._objects.get((kind, *parts))
        if known is None:
            known = self._objects[(kind, *parts)] = numbered(kind(*parts), _FIRST_OWN + len(self._objects))
            self._of_kind.setdefault(kind, []).append(known)
        assert isinstance(known, kind)
        return known

    def unknown(self, why: str) -> Objects:
        return frozenset({self.make(Unknown, why)})

    def scope(self, code: Code) -> Scope:
        known = self._scopes.get(code)
        if known is None:
            known = self._scopes[code] = scope_of(code)
        return known

    def read(self, owner: Object, name: str, unit: Unit) -> Objects:
        """What a field can hold; the statement of the unit is looked at again when it can hold more."""
        self._readers.setdefault((owner, name), set()).add(self.waiting.reader(unit))
        return self.content(owner, name)

    def shared(self, name: str, unit: Unit) -> Objects:
        """What unknown code may have under a name: one object in place of very many, as in every other field."""
        held = self.read(SHARED, name, unit)
        few = len(held) <= MAX_HELD or not _are_many(held, MAX_HELD)
        return held if few else frozenset({MANY, *filter(_is_time, held)})

    def content(self, owner: Object, name: str) -> Objects:
        """What a field holds by now."""
        known = self._contents.get((owner, name))
        if known is None:
            known = self._contents[owner, name] = frozenset(self.fields.get(owner, {}).get(name, ()))
        return known

    def found(self, start: Object, search: Search, unit: Unit) -> Objects:
        """All that a search that starts at an object finds; the unit is looked at again when that changes."""
        known = self._closures.get(search.goes_through)
        if known is None:
            known = self._closures[search.goes_through] = Closure(self.fields, search.goes_through, self.waiting.wake)
        return known.found(start, search.counts, self.waiting.reader(unit))

    def found_first(self, owner: Object, search: BoundedSearch, unit: Unit) -> Objects:
        """What a search that starts at an object finds: it is made again once a field that it read can hold more."""
        known = self._findings.get((owner, search))
        if known is None:
            read: dict[tuple[Object, str], None] = {}
            known = self._findings[owner, search] = SearchResult(search(owner, SeenFields(self, read)), tuple(read))
            for place in read:
                self._found_through.setdefault(place, set()).add((owner, search))
        reader = self.waiting.reader(unit)
        if reader not in known.readers:
            known.readers.add(reader)
            for field_read in known.read:
                self._readers.setdefault(field_read, set()).add(reader)
        return known.objects

    def has(self, owner: Object, name: str) -> bool:
        return bool(self.fields.get(owner, {}).get(name))

    def write(self, owner: Object, name: str, objects: Iterable[Object]) -> None:
        """Let a field hold these objects as well."""
        fields = self.fields.setdefault(owner, {})
        if name not in fields:
            fields[name] = set()
            self._grown(owner, _ALL)
        held = fields[name]
        new = set(objects) - held
        if MANY in held and owner is not SHARED:
            self.write(SHARED, ANY_KEY, new)
            new = set(filter(_is_time, new)) if len(held) < self.limits.held else set()
        elif ANY_DATA in held:
            new = {one for one in new if not is_tensor(one)}
        if new:
            held |= new
            gone = self._gathered(owner, held)
            self._grown(owner, name)
            for closure in self._closures.values():
                if gone:
                    closure.shrunk(owner, name, gone)
                closure.grown(owner, name, held & {*new, MANY, ANY_DATA} if gone else new)

    def _gathered(self, owner: Object, held: set[Object]) -> set[Object]:
        """Put one object in the place of too many; gives what is no longer there."""
        before = set(held) if len(held) > min(MAX_TENSORS, self.limits.held) else held
        tensors = [one for one in held if is_tensor(one)] if len(held) > MAX_TENSORS else []
        if len(tensors) > MAX_TENSORS:
            held.difference_update(tensors)
            held.add(ANY_DATA)
        if self._are_too_many(owner, held):
            everything = tuple(held)
            held.clear()
            held.update((MANY, *filter(_is_time, everything)))
            self.write(SHARED, ANY_KEY, (one for one in everything if not isinstance(one, (Plain, Unknown))))
        return before - held

    def _are_too_many(self, owner: Object, held: set[Object]) -> bool:
        most = self.limits.held
        told_apart = owner is SHARED or isinstance(owner, Callbacks)
        return len(held) > most and not told_apart and _are_many(held, most)

    def _grown(self, owner: Object, name: str) -> None:
        self.changes += 1
        self._contents.pop((owner, name), None)
        for start in self._found_through.pop((owner, name), ()):
            self._findings.pop(start, None)
        self.changed_bases += name.startswith(BASES)
        self.waiting.wake(self._readers.get((owner, name), ()))

    def names(self, owner: Object, unit: Unit) -> tuple[str, ...]:
        """The fields that an object has."""
        self._readers.setdefault((owner, _ALL), set()).add(self.waiting.reader(unit))
        return tuple(self.fields.get(owner, ()))

    def keys(self, owner: Object, unit: Unit) -> tuple[str, ...]:
        """The fields of elements."""
        return tuple(name for name in self.names(owner, unit) if name.startswith("["))

    def objects(self, kind: type[_Made]) -> list[_Made]:
        """All objects of that kind."""
        return [one for one in self._of_kind.get(kind, ()) if isinstance(one, kind)]

    def is_shared(self, one: Object) -> bool:
        """Whether unknown code may have the object."""
        if self._shared[0] != self.changes:
            self._shared = (self.changes, frozenset(self.reach([SHARED])))
        return one in self._shared[1]

    def summary(self, unit: Unit) -> UnitSummary:
        """The summary of a unit, which is looked at where it is new."""
        known = self.summaries.get(unit)
        if known is None:
            known = self.summaries[unit] = UnitSummary()
            self.waiting.units[unit] = None
        return known

    def spend(self) -> None:
        """Count one call of a library; raises `TooLarge` where there are too many."""
        self._calls_left -= 1
        if self._calls_left < 0:
            raise TooLarge

    def finish(self) -> None:
        """Look at everything once more, now that all that can be told is told.

        What a unit seemed to do when less was known of its objects is forgotten: a `__getattr__` that is never asked.
        """
        self.final = True
        for unit, summary in self.summaries.items():
            summary.effects.clear()
            summary.calls.clear()
            summary.doubtful.clear()
            summary.may_change.clear()
            self.waiting.units[unit] = None

    def lift_limits(self) -> None:
        """All has been looked at: what is asked from now on adds little, and has nobody to give it up."""
        self._calls_left = self.effects_left = 1 << 62

    def effect(self, unit: Unit, node: Any, effect: Effect) -> None:
        self.effects_left -= 1
        if self.effects_left < 0:
            raise TooLarge
        self.summary(unit).effects[node, effect] = None

    def calls(self, unit: Unit, node: Any, called: Unit) -> None:
        self.summary(called)
        self.summary(unit).calls[node, called] = None

    def reach(
        self, roots: Iterable[Object], *, through_unknown: bool = True, through_holders: bool = True
    ) -> Iterator[Object]:
        """The objects and all that they hold, directly or through one another.

        `through_holders`: also by objects of a library of which no more is known than what they were given.
        """
        seen = set(roots)
        waiting = list(seen)
        while waiting:
            current = waiting.pop()
            if isinstance(current, Unknown) and not through_unknown:
                continue
            if not through_holders and isinstance(current, Thing) and current.kind == "holder":
                continue
            yield current
            for inner in _parts(current):
                if inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
            for held in self.fields.get(current, {}).values():
                new = held - seen
                seen |= new
                waiting += new


def _are_many(held: Iterable[Object], most: int) -> bool:
    """Whether there are too many objects beside those of which each class of the project has one."""
    return sum(not isinstance(getattr(one, "site", None), Class) for one in held) > most


def _is_time(one: Object) -> bool:
    """Whether an object is what a clock said, or is computed of it: it is known wherever it is kept."""
    return isinstance(one, (Moment, Duration))


def is_tensor(one: Object | None) -> bool:
    """Whether an object is a tensor that is told apart from others."""
    return isinstance(one, Thing) and one.kind == "data" and one not in (DATA, ANY_DATA, WEIGHTS)


def _parts(current: Object) -> Iterator[Object]:
    """The objects that an object is made of."""
    if isinstance(current, Unknown) and current is not SHARED:
        yield SHARED
    if isinstance(current, Container) and isinstance(current.site, Object):  # `vars(object)`
        yield current.site
    for name in ("receiver", "function", "holder", "activation"):
        part = getattr(current, name, None)
        if isinstance(part, Object):
            yield part
