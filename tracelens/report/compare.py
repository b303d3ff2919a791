"""Two Diagnoses side by side: how much faster or slower, how sure that is, and which parts and lines changed.

In: the Diagnoses of a base and of a new version, one per start of the process. Out: `Comparison`. The interval comes
from a bootstrap with a fixed seed over starts and, within each, over blocks of steps. With one start a side it knows
the spread of steps only, not what differs from one start of a job to the next; the sentence says so, and `verify`
measures it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tracelens import units
from tracelens.jsonfile import microseconds
from tracelens.messages import joined, say
from tracelens.model import BREAKDOWN_PARTS, Diagnosis, Ratio, Stall, on_baseline
from tracelens.report import comparability, formatting, wording
from tracelens.report import issues as listing
from tracelens.report.issues import Issue
from tracelens.report.wording import stall_place

RESAMPLES = 2000
"""Enough for a 95 % interval whose ends move by less than a tenth of its width."""
TOLERANCE = 0.05
"""The gate fails above 5 %: starts of the same job on a shared host differ by a few percent."""
FEWEST_STEPS = 5
"""A spread of fewer steps says nothing."""
ORDERED_STARTS = 3
"""From three starts a side on, a slower version must be slower in its fastest start than the base in its slowest."""

Judgment = Literal["slower", "not slower", "inconclusive"]
JUDGED: dict[Judgment, str] = {
    "slower": say("slower"),
    "not slower": say("not slower"),
    "inconclusive": say("inconclusive"),
}
Samples = Sequence[Sequence[int]]
"""Step times in ns, per start."""


@dataclass(frozen=True, slots=True)
class TimeChange:
    """One part or one place: ns per step before and after; None where it does not occur."""

    name: str
    base_ns: int | None
    new_ns: int | None
    base_lines: tuple[int, ...] = ()
    new_lines: tuple[int, ...] = ()
    base_exposed_ns: int | None = None
    new_exposed_ns: int | None = None

    @property
    def delta_ns(self) -> int:
        return (self.new_ns or 0) - (self.base_ns or 0)

    @property
    def state(self) -> Literal["new", "gone", "changed"]:
        return "new" if self.base_ns is None else "gone" if self.new_ns is None else "changed"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ratio` is new ÷ base step time; `obstacles` say why the two are not comparable."""

    base_starts_ns: tuple[int, ...]
    """The median step of each start."""
    new_starts_ns: tuple[int, ...]
    ratio: Ratio | None
    unprofiled: bool
    parts: tuple[TimeChange, ...]
    waits: tuple[TimeChange, ...]
    obstacles: tuple[str, ...]
    appeared: tuple[Issue, ...] = ()
    """Findings of the new version that the base does not have."""
    vanished: tuple[Issue, ...] = ()
    issues: tuple[Issue, ...] = ()
    """Every finding of the new version, with its state."""

    @property
    def base_ns(self) -> int:
        return _median(self.base_starts_ns)

    @property
    def new_ns(self) -> int:
        return _median(self.new_starts_ns)

    @property
    def judgment(self) -> Judgment:
        """For the gate: slower only when the whole interval lies above one and the middle above the tolerance."""
        if self.obstacles or self.ratio is None:
            return "inconclusive"
        if self.ratio.low > 1 and self.ratio.value > 1 + TOLERANCE and self._ordered:
            return "slower"
        return "not slower" if self.ratio.high <= 1 + TOLERANCE else "inconclusive"

    @property
    def _ordered(self) -> bool:
        if min(len(self.base_starts_ns), len(self.new_starts_ns)) < ORDERED_STARTS:
            return True
        return min(self.new_starts_ns) > max(self.base_starts_ns)

    @property
    def verdict(self) -> str:
        """One sentence, the same in every format. What makes the two incomparable comes before any number."""
        if self.obstacles:
            return say(
                "Not comparable: {obstacles}. Their steps, for what they are: {change}",
                obstacles=joined("; ", self.obstacles),
                change=self._change,
            )
        return self._change

    @property
    def _change(self) -> str:
        basis = say("without the profiler") if self.unprofiled else say("as recorded")
        times = say(
            "{before} → {after} per step {basis}",
            before=formatting.milliseconds(self.base_ns),
            after=formatting.milliseconds(self.new_ns),
            basis=basis,
        )
        if self.ratio is None:
            return say("{times}; too few steps for an interval.", times=times)
        change, low, high = (100 * (x - 1) for x in (self.ratio.value, self.ratio.low, self.ratio.high))
        span = units.percent_range(low, high)
        return say(
            "{times}: {signed_percent} (95 % interval {span}, {starts}){cause}.",
            times=times,
            signed_percent=units.signed_percent(change),
            span=span,
            starts=self._starts,
            cause=self._cause,
        )

    @property
    def _starts(self) -> str:
        base, new = len(self.base_starts_ns), len(self.new_starts_ns)
        return (
            say("over the steps of one start each")
            if base == new == 1
            else say("{base} against {new} starts", base=base, new=new)
        )

    @property
    def _cause(self) -> str:
        """What moved most in the direction of the step time, where the step time moved beyond its noise."""
        delta = self.new_ns - self.base_ns
        if self.obstacles or self.ratio is None or self.ratio.low <= 1 <= self.ratio.high:
            return ""
        same = [part for part in self.parts if part.delta_ns * delta > 0]
        if not same:
            return ""
        part = max(same, key=lambda change: abs(change.delta_ns))
        return say(
            "; most of it in {parts} ({signed})",
            parts=wording.PARTS[part.name][0].lower(),
            signed=formatting.signed(part.delta_ns),
        )


def compare_diagnoses(
    base: Diagnosis | Sequence[Diagnosis], new: Diagnosis | Sequence[Diagnosis], despite: Collection[str] = ()
) -> Comparison:
    """Compare two versions of the same loop; `despite` names differences that do not count as obstacles."""
    before, after = _starts(base), _starts(new)
    unprofiled = min(len(_unprofiled(start)) for start in (*before, *after)) >= FEWEST_STEPS
    steps = [[(_unprofiled if unprofiled else _profiled)(start) for start in side] for side in (before, after)]
    old, now = _typical(before, steps[0]), _typical(after, steps[1])
    told_old, told_now = _on_compared_step(old, unprofiled), _on_compared_step(now, unprofiled)
    issues = listing.judged(listing.list_issues(now), listing.fingerprints(old), ())
    present = {issue.fingerprint for issue in issues}
    return Comparison(
        base_starts_ns=tuple(map(_median, steps[0])),
        new_starts_ns=tuple(map(_median, steps[1])),
        ratio=_ratio(steps[0], steps[1]),
        unprofiled=unprofiled,
        parts=_parts(told_old, told_now),
        waits=_waits(told_old.stalls, told_now.stalls),
        obstacles=comparability.obstacles((*before, *after), len(before), despite),
        appeared=tuple(issue for issue in issues if issue.state == "new"),
        vanished=tuple(issue for issue in listing.list_issues(old) if issue.fingerprint not in present),
        issues=issues,
    )


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """As JSON (docs/compare.schema.json)."""
    ratio = comparison.ratio
    return {
        "schema_version": 1,
        "verdict": comparison.verdict,
        "judgment": comparison.judgment,
        "obstacles": list(comparison.obstacles),
        "base_us": comparison.base_ns / 1000,
        "new_us": comparison.new_ns / 1000,
        "base_starts_us": [ns / 1000 for ns in comparison.base_starts_ns],
        "new_starts_us": [ns / 1000 for ns in comparison.new_starts_ns],
        "basis": "unprofiled" if comparison.unprofiled else "profiled",
        "ratio": {"value": ratio.value, "low": ratio.low, "high": ratio.high} if ratio else None,
        "parts": {change.name: change.delta_ns / 1000 for change in comparison.parts},
        "waits": [_wait_document(change) for change in comparison.waits],
        "new_findings": [listing.document(issue) for issue in comparison.appeared],
        "gone_findings": [listing.document(issue) for issue in comparison.vanished],
    }


def _wait_document(change: TimeChange) -> dict[str, Any]:
    return {
        "place": change.name,
        "state": change.state,
        "base_us": microseconds(change.base_ns),
        "new_us": microseconds(change.new_ns),
        "base_exposed_us": microseconds(change.base_exposed_ns),
        "new_exposed_us": microseconds(change.new_exposed_ns),
        "base_lines": list(change.base_lines),
        "new_lines": list(change.new_lines),
    }


def _starts(side: Diagnosis | Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    return (side,) if isinstance(side, Diagnosis) else tuple(side)


def _typical(side: Sequence[Diagnosis], steps: Samples) -> Diagnosis:
    """The start whose step is in the middle: its parts and waits stand for all."""
    order = sorted(range(len(side)), key=lambda index: _median(steps[index]))
    return side[order[(len(order) - 1) // 2]]


def _on_compared_step(diagnosis: Diagnosis, unprofiled: bool) -> Diagnosis:
    """With parts and waits of the step that is compared, so that they add up to it: not of a measurement beside it,
    which the other side need not have."""
    steps = diagnosis.steps
    compared = replace(steps, measured_ns=None, unprofiled_median_ns=steps.unprofiled_median_ns if unprofiled else None)
    share = compared.best_known_ns / max(steps.best_known_ns, 1)  # what a wait costs is told of the measured step
    waits = tuple(
        stall if stall.exposed_ns is None else replace(stall, exposed_ns=round(stall.exposed_ns * share))
        for stall in diagnosis.stalls
    )
    return on_baseline(replace(diagnosis, steps=compared, stalls=waits))


def _parts(base: Diagnosis, new: Diagnosis) -> tuple[TimeChange, ...]:
    if base.breakdown is None or new.breakdown is None:
        return ()
    before, after = base.breakdown.parts, new.breakdown.parts
    both = [(part, before[part], after[part]) for part in BREAKDOWN_PARTS]
    return tuple(TimeChange(part, old, now) for part, old, now in both if old is not None and now is not None)


def _unprofiled(diagnosis: Diagnosis) -> Sequence[int]:
    """Steps of W0 of the rank that is reported."""
    if diagnosis.run is None:
        return ()
    rank = diagnosis.timeline.trace.rank
    recordings = diagnosis.run.recordings
    return next(
        (recording.clock.unprofiled_ns for recording in recordings if recording.rank == rank or len(recordings) == 1),
        (),
    )


def _profiled(diagnosis: Diagnosis) -> Sequence[int]:
    steps = diagnosis.timeline.tables.steps
    kept = steps[steps["kept"]]
    return [int(ns) for ns in kept["end_ns"] - kept["start_ns"]] or [diagnosis.steps.median_ns]


def _median(values: Sequence[int]) -> int:
    return round(float(np.median(values)))


def _ratio(base: Samples, new: Samples) -> Ratio | None:
    """New ÷ base: the middle of the starts' medians, with a 95 % bootstrap interval."""
    if min(len(steps) for steps in (*base, *new)) < FEWEST_STEPS:
        return None
    random = np.random.default_rng(0)
    low, high = np.percentile(_resampled(new, random) / _resampled(base, random), (2.5, 97.5))
    middle = np.median([np.median(steps) for steps in new]) / np.median([np.median(steps) for steps in base])
    return Ratio(float(middle), float(min(low, middle)), float(max(high, middle)))


def _resampled(side: Samples, random: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The median step of `RESAMPLES` made-up repetitions: starts drawn anew, and blocks of steps within each."""
    medians = np.stack([_block_medians(np.asarray(steps, dtype=float), random) for steps in side])
    starts = random.integers(len(side), size=(len(side), RESAMPLES))
    drawn = medians[starts, random.integers(RESAMPLES, size=starts.shape)]
    middle: np.ndarray[tuple[int], np.dtype[np.float64]] = np.median(drawn, axis=0)
    return middle


def _block_medians(
    steps: np.ndarray[tuple[int], np.dtype[np.float64]], random: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Blocks of the cube root of their number: steps that follow one another resemble one another."""
    count = len(steps)
    length = max(1, round(count ** (1 / 3)))
    blocks = -(-count // length)
    first = random.integers(count, size=(RESAMPLES, blocks, 1))
    index = (first + np.arange(length)) % count  # the last steps are followed by the first
    medians: np.ndarray[tuple[int], np.dtype[np.float64]] = np.median(
        steps[index.reshape(RESAMPLES, -1)[:, :count]], axis=1
    )
    return medians


def _waits(base: Sequence[Stall], new: Sequence[Stall]) -> tuple[TimeChange, ...]:
    before, after = _by_place(base), _by_place(new)
    changes = [_change(name, before.get(name, ()), after.get(name, ())) for name in sorted({*before, *after})]
    return tuple(sorted(changes, key=_weight))


def _weight(change: TimeChange) -> tuple[int, int, str]:
    """What changed most first; among the same, the longest wait."""
    return -abs(change.delta_ns), -(change.new_ns or change.base_ns or 0), change.name


def _by_place(stalls: Sequence[Stall]) -> dict[str, tuple[Stall, ...]]:
    """Waits per place; lines move between versions, so the call and its function name it where they are known."""
    out: dict[str, tuple[Stall, ...]] = {}
    for stall in stalls:
        if stall.verdict == "window_edge":
            continue
        function = (
            say(" in {function}", function=stall.location.function)
            if stall.location and stall.location.function
            else ""
        )
        file = stall.location.path if stall.location else stall_place(stall)
        name = say("{call}{function} ({file})", call=stall.call or stall.api, function=function, file=file)
        out[name] = (*out.get(name, ()), stall)
    return out


def _change(name: str, before: Sequence[Stall], after: Sequence[Stall]) -> TimeChange:
    return TimeChange(
        name=name,
        base_ns=sum(stall.wait_ns for stall in before) if before else None,
        new_ns=sum(stall.wait_ns for stall in after) if after else None,
        base_lines=_lines(before),
        new_lines=_lines(after),
        base_exposed_ns=_exposed(before),
        new_exposed_ns=_exposed(after),
    )


def _lines(stalls: Sequence[Stall]) -> tuple[int, ...]:
    return tuple(sorted({stall.location.line for stall in stalls if stall.location and stall.location.line}))


def _exposed(stalls: Sequence[Stall]) -> int | None:
    """Exposed time of a place with one wait; None for several, because exposed times of single waits do not add up."""
    return stalls[0].exposed_ns if len(stalls) == 1 else None
