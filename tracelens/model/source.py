"""A place in the user's source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source. `path` is relative to the Run's working directory where it lies below it."""

    path: str
    line: int | None
    function: str | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"
