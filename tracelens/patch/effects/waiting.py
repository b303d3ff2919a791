"""Who is looked at again: units, and statements of units, that read what has grown since.

In: who reads, and what wakes them. Out: the units and statements that wait. A statement reads for its unit while it is
looked at, and is looked at again alone: of a function of fifty lines one or two depend on what grew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tracelens.patch.effects.objects import Activation, Frame, Module, Part, Reader, Unit


class Waiting:
    """Units go first: what is new is looked at as a whole, and its statements then with all that grew by it."""

    def __init__(self) -> None:
        self.units: dict[Unit, None] = {}
        self.parts: dict[Part, None] = {}
        self.present: Part | None = None
        """The statement that is looked at."""
        self._known: dict[tuple[Frame, ast.stmt], Part] = {}

    def __bool__(self) -> bool:
        return bool(self.units or self.parts)

    def part(self, unit: Module | Activation, frame: Frame, statement: ast.stmt) -> Part:
        """The one part that is this statement."""
        known = self._known.get((frame, statement))
        if known is None:
            known = self._known[frame, statement] = Part(unit, frame, statement, len(self._known))
        return known

    def reader(self, unit: Unit) -> Reader:
        """Who reads for the unit at present."""
        return self.present if self.present is not None and self.present.unit is unit else unit

    def wake(self, readers: Iterable[Reader]) -> None:
        """Have them looked at again."""
        for one in readers:
            if isinstance(one, Part):
                self.parts[one] = None
            else:
                self.units[one] = None
