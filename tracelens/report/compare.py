"""Two Diagnoses side by side: how much faster or slower, how sure that is, and which parts and lines changed.

In: the Diagnosis of a base and of a new run. Out: `Comparison`. The interval comes from the spread of single steps by a
bootstrap with a fixed seed; it does not cover what differs from one start of a job to the next: `verify` measures that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tracelens.model import BREAKDOWN_PARTS, Diagnosis, Ratio, Stall
from tracelens.report.words import stall_place

RESAMPLES = 2000
"""Enough for a 95 % interval whose ends move by less than a tenth of its width."""
TOLERANCE = 0.05
"""The gate fails above 5 %: starts of the same job on a shared host differ by a few percent."""
FEWEST_STEPS = 5
"""A spread of fewer steps says nothing."""

Judgment = Literal["slower", "not slower", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Change:
    """One part or one source line: ns per step before and after; None where it does not occur."""

    name: str
    base_ns: int | None
    new_ns: int | None

    @property
    def delta_ns(self) -> int:
        return (self.new_ns or 0) - (self.base_ns or 0)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ratio` is new ÷ base step time; `obstacles` say why the two runs are not comparable."""

    base_ns: int
    new_ns: int
    ratio: Ratio | None
    unprofiled: bool
    parts: tuple[Change, ...]
    waits: tuple[Change, ...]
    obstacles: tuple[str, ...]

    @property
    def judgment(self) -> Judgment:
        """For the gate: slower only when the whole interval lies above one and the middle above the tolerance."""
        if self.obstacles or self.ratio is None:
            return "inconclusive"
        if self.ratio.low > 1 and self.ratio.value > 1 + TOLERANCE:
            return "slower"
        return "not slower" if self.ratio.high <= 1 + TOLERANCE else "inconclusive"


def of(base: Diagnosis, new: Diagnosis) -> Comparison:
    """Compare two runs of the same loop."""
    clean = _unprofiled(base), _unprofiled(new)
    unprofiled = min(map(len, clean)) >= FEWEST_STEPS
    before, after = clean if unprofiled else (_profiled(base), _profiled(new))
    return Comparison(
        base_ns=round(float(np.median(before))),
        new_ns=round(float(np.median(after))),
        ratio=_ratio(before, after),
        unprofiled=unprofiled,
        parts=_parts(base, new),
        waits=_waits(base.stalls, new.stalls),
        obstacles=_obstacles(base, new),
    )


def _parts(base: Diagnosis, new: Diagnosis) -> tuple[Change, ...]:
    if base.breakdown is None or new.breakdown is None:
        return ()
    before, after = base.breakdown.parts, new.breakdown.parts
    return tuple(Change(part, before[part], after[part]) for part in BREAKDOWN_PARTS)


def _unprofiled(diagnosis: Diagnosis) -> Sequence[int]:
    """Steps of W0 of the rank that is reported."""
    if diagnosis.run is None:
        return ()
    rank = diagnosis.timeline.trace.rank
    recordings = diagnosis.run.recordings
    return next((one.clock.unprofiled_ns for one in recordings if one.rank == rank or len(recordings) == 1), ())


def _profiled(diagnosis: Diagnosis) -> Sequence[int]:
    steps = diagnosis.timeline.steps()
    kept = steps[steps["kept"]]
    return [int(ns) for ns in kept["end_ns"] - kept["start_ns"]] or [diagnosis.steps.median_ns]


def _ratio(base: Sequence[int], new: Sequence[int]) -> Ratio | None:
    if min(len(base), len(new)) < FEWEST_STEPS:
        return None
    random = np.random.default_rng(0)
    medians = [
        np.median(random.choice(np.asarray(steps), size=(RESAMPLES, len(steps))), axis=1) for steps in (base, new)
    ]
    low, high = np.percentile(medians[1] / medians[0], (2.5, 97.5))
    return Ratio(float(np.median(new) / np.median(base)), float(low), float(high))


def _waits(base: Sequence[Stall], new: Sequence[Stall]) -> tuple[Change, ...]:
    before, after = _by_place(base), _by_place(new)
    changes = [Change(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_ns)))


def _by_place(stalls: Sequence[Stall]) -> dict[str, int]:
    """Host wait per place; lines move between versions, so the call and its function name it where they are known."""
    out: dict[str, int] = {}
    for stall in stalls:
        if stall.verdict == "window_edge":
            continue
        function = f" in {stall.location.function}" if stall.location and stall.location.function else ""
        file = stall.location.path if stall.location else stall_place(stall)
        name = f"{stall.call or stall.api}{function} ({file})"
        out[name] = out.get(name, 0) + stall.wait_ns
    return out


def _obstacles(base: Diagnosis, new: Diagnosis) -> tuple[str, ...]:
    a, b = base.timeline.trace, new.timeline.trace
    pairs = (("device", a.device, b.device), ("world size", a.world_size or 1, b.world_size or 1))
    return tuple(f"{name}: {x} against {y}" for name, x, y in pairs if x != y)
