"""What another tool measured of the same recording, beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ComparedQuantity:
    """One quantity by one definition, theirs and ours. None is not measured."""

    name: str
    unit: Literal["ms", "%"]
    theirs: float | None
    ours: float | None

    @property
    def agrees(self) -> bool | None:
        """Within one percent, or a hundredth of the unit; None where one side has no number."""
        if self.theirs is None or self.ours is None:
            return None
        return abs(self.theirs - self.ours) <= max(0.01 * abs(self.ours), 0.01)


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """HTA's answers on the whole recording of one rank."""

    tool: str
    version: str
    quantities: tuple[ComparedQuantity, ...]
    notes: tuple[str, ...]
    """What of HTA's explains a difference, or why an analysis of it gave no answer."""
