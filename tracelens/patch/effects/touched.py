"""Whether two pieces of code meet: the variables and objects that one reads and changes, asked by those of the other.

In: the `Deed`s of the statements that run later. Out: the effect that a deed of what stays may not pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from tracelens.patch.effects.deeds import Deed
from tracelens.patch.effects.dispatch import STATE
from tracelens.patch.effects.memory import ANY_DATA, ANY_KEY, DATA, SHARED, Memory, is_tensor
from tracelens.patch.effects.objects import (
    READS,
    WRITES,
    Effect,
    Object,
    Unknown,
    is_thing,
)


class Touched:
    """What the statements that run later read and change, by object.

    `through_unknown`: with all that can be reached only through something that is not known.
    """

    def __init__(self, deeds: Iterable[Deed], memory: Memory, through_unknown: bool) -> None:
        self._memory = memory
        self._through_unknown = through_unknown
        self._read: dict[Object, dict[str, Effect]] = {}
        self._written: dict[Object, dict[str, Effect]] = {}
        self._met: dict[Effect, Effect | None] = {}
        """What each effect of the others meets: a loop has many that are the same."""
        for deed in deeds:
            effect = deed.effect
            if effect.kind not in (READS, WRITES) or effect.target is None:
                continue
            table = self._written if effect.kind == WRITES else self._read
            reached = memory.reach([effect.target], through_unknown=False) if effect.deep else (effect.target,)
            for one in reached:
                if one is not DATA or not effect.deep:
                    table.setdefault(one, {})["" if effect.deep else effect.field] = effect

    def meets(self, deed: Deed) -> Effect | None:
        """The effect that one of what stays in the loop may not pass."""
        effect = deed.effect
        if effect.kind not in (READS, WRITES) or effect.target is None:
            return None
        if not self._through_unknown and (deed.perhaps or isinstance(effect.target, Unknown) or effect.target is DATA):
            return None
        if effect not in self._met:
            self._met[effect] = self._first_met(effect, effect.target)
        return self._met[effect]

    def _first_met(self, effect: Effect, target: Object) -> Effect | None:
        tables = (self._written, self._read) if effect.kind == WRITES else (self._written,)
        if effect.deep:
            return next((e for one in self._behind(target) for t in tables for e in t.get(one, {}).values()), None)
        for table in tables:
            for one in self._same(target):
                for name, own in table.get(one, {}).items():
                    if _same_field(name, effect.field) or (is_thing(one, "data") and _both_content(name, effect.field)):
                        return own
        return None

    def _behind(self, target: Object) -> Iterator[Object]:
        """What all that is reached from there may be."""
        for one in self._memory.reach([target], through_unknown=self._through_unknown):
            yield from (other for other in self._same(one) if other is not DATA)

    def _same(self, target: Object) -> Iterable[Object]:
        """The objects that the object may be: one of many tensors, or one of those that unknown code has."""
        if target is SHARED:
            return self._shared
        if (SHARED in self._written or SHARED in self._read) and self._memory.is_shared(target):
            return (target, SHARED)
        if target is ANY_DATA:
            return (one for one in (*self._written, *self._read) if is_tensor(one) or one is ANY_DATA)
        return (target, ANY_DATA) if is_tensor(target) else (target,)

    @cached_property
    def _shared(self) -> tuple[Object, ...]:
        """All of these that unknown code may have."""
        return tuple(filter(self._memory.is_shared, dict.fromkeys((*self._written, *self._read))))


def _both_content(one: str, other: str) -> bool:
    """Whether both are the numbers of a tensor, as a whole or in parts; settings have names of their own."""
    return all(name in (STATE, "data", "grad") or name.startswith("[") for name in (one, other))


def _same_field(one: str, other: str) -> bool:
    if one == other or "" in (one, other) or "*" in (one, other):
        return True
    return ANY_KEY in (one, other) and one.startswith("[") and other.startswith("[")
