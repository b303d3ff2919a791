"""What can be reached from an object through certain fields: kept up to date while memory grows, for all who ask.

In: the fields of all objects, and each new object in one of them. Out: sets of objects, and readers whose answer grew.
Sets are the bits of whole numbers while they spread from an object to those that hold it: a project has thousands of
objects that reach one another, and each would be gone through again whenever any of them got something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tracelens.patch.effects.objects import Object, Objects, Reader


class Search(NamedTuple):
    """Goes on through a field of an object if `goes_through` says so; of all that is met those count that `counts`."""

    goes_through: Callable[[Object, str], bool]
    counts: Callable[[Object], bool]


class Closure:
    """All that is reached by one way of going on. An object is met once somebody asks about one that leads to it."""

    def __init__(
        self,
        fields: Mapping[Object, Mapping[str, set[Object]]],
        goes_through: Callable[[Object, str], bool],
        wake: Callable[[Iterable[Reader]], None],
    ) -> None:
        self._fields = fields
        self._goes_through = goes_through
        self._wake_up = wake
        self._met: list[Object] = []
        """By the number of its bit, each object."""
        self._bits: dict[Object, int] = {}
        self._reached: dict[Object, int] = {}
        self._holders: dict[Object, set[Object]] = {}
        """By what is held, who leads to it."""
        self._masks: dict[Callable[[Object], bool], int] = {}
        self._sets: dict[int, Objects] = {}
        self._readers: dict[Object, dict[Callable[[Object], bool], set[Reader]]] = {}

    def found(self, start: Object, counts: Callable[[Object], bool], reader: Reader) -> Objects:
        """What counts of all that is reached; the reader is looked at again when that changes."""
        if start not in self._reached:
            self._enter(start)
        if counts not in self._masks:
            self._masks[counts] = sum(self._bits[one] for one in self._met if counts(one))
        self._readers.setdefault(start, {}).setdefault(counts, set()).add(reader)
        chosen = self._reached[start] & self._masks[counts]
        known = self._sets.get(chosen)
        if known is None:
            digits = reversed(f"{chosen:b}")
            known = self._sets[chosen] = frozenset(
                one for one, digit in zip(self._met, digits, strict=False) if digit == "1"
            )
        return known

    def grown(self, owner: Object, name: str, new: Iterable[Object]) -> None:
        """A field of an object can hold more."""
        if owner not in self._reached or not self._goes_through(owner, name):
            return
        for one in new:
            self._holders.setdefault(one, set()).add(owner)
            if one in self._reached:
                self._spread([one])
            else:
                self._enter(one)

    def shrunk(self, owner: Object, name: str, gone: Iterable[Object]) -> None:
        """One object is in a field now in place of many: what leads there is gone through anew when it is asked for."""
        if not self._goes_through(owner, name):
            return
        kept = (held for other, held in self._fields[owner].items() if self._goes_through(owner, other))
        for one in set(gone).difference(*kept):
            self._holders.get(one, set()).discard(owner)
        waiting = [owner]
        while waiting:
            one = waiting.pop()
            if self._reached.pop(one, None) is not None:
                waiting += self._holders.get(one, ())
                for readers in self._readers.get(one, {}).values():
                    self._wake_up(readers)

    def _enter(self, start: Object) -> None:
        waiting, changed = [start], list[Object]()
        while waiting:
            one = waiting.pop()
            changed.append(one)
            if one in self._reached:
                continue
            self._reached[one] = self._bit(one)
            for name, held in self._fields.get(one, {}).items():
                if held and self._goes_through(one, name):
                    for inner in held:
                        self._holders.setdefault(inner, set()).add(one)
                    waiting += held
        self._spread(changed)

    def _bit(self, one: Object) -> int:
        bit = self._bits.get(one)
        if bit is None:
            bit = self._bits[one] = 1 << len(self._met)
            self._met.append(one)
            for counts in self._masks:
                self._masks[counts] |= bit if counts(one) else 0
        return bit

    def _spread(self, changed: Iterable[Object]) -> None:
        """Hand what was reached on to all who lead there."""
        waiting = dict.fromkeys(changed)
        while waiting:
            one, _ = waiting.popitem()
            reached = self._reached[one]
            for holder in self._holders.get(one, ()):
                before = self._reached.get(holder)
                if before is not None and before | reached != before:
                    self._reached[holder] = before | reached
                    waiting[holder] = None
                    self._wake(holder, reached & ~before)

    def _wake(self, start: Object, new: int) -> None:
        for counts, readers in self._readers.get(start, {}).items():
            if new & self._masks[counts]:
                self._wake_up(readers)
