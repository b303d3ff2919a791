"""What only the pages show: the replayed step as bars, and every combination of a few changes."""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.model.plan import Edit, Estimate


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """One stretch of a replayed step: what ran on which lane (`host`, or a GPU stream), ns since the window's start."""

    lane: str
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """One steady step as the replay lays it out, without the profiler's cost; `scheme` None is the loop as it is."""

    scheme: str | None
    length_ns: int
    bars: tuple[DrawnSpan, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """What some changes buy together, replayed as one set: `chosen` are positions in `WhatIf.changes`."""

    chosen: tuple[int, ...]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Every combination of a few changes, each replayed on its own: gains of two changes do not add up."""

    changes: tuple[tuple[Edit, ...], ...]
    """Edits that belong together are one change."""
    combinations: tuple[Combination, ...]
