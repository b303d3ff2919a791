"""How much steps differ from one another, and whether the GPU's work or its idle time makes the difference.

In: a Diagnosis. Out: `StepLengths`, one column per recorded step in percent of the longest. Times are as recorded, with
the profiler: only there each step is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracelens.messages import say
from tracelens.model import Diagnosis
from tracelens.report.formatting import short_ms
from tracelens.report.sections import Section, Table

FEWEST = 3
MOST = 120
"""Columns: with more a column is narrower than a pixel of a phone."""


@dataclass(frozen=True, slots=True)
class StepColumn:
    number: int
    busy: float
    idle: float
    counted: bool
    title: str


@dataclass(frozen=True, slots=True)
class StepLengths:
    columns: tuple[StepColumn, ...]
    median: float
    section: Section


def step_lengths(diagnosis: Diagnosis) -> StepLengths | None:
    """None with too few steps to compare."""
    steps = _steps(diagnosis)
    counted = [step for step in steps if step.counted]
    if diagnosis.steps.source == "none" or len(counted) < FEWEST:
        return None
    longest = max(1.0, *(step.ns for step in steps))
    median_ns = float(np.median([step.ns for step in counted]))
    columns = tuple(_column(step, longest) for step in steps)
    section = _section(counted, median_ns, len(diagnosis.timeline.tables.gaps) > 0)
    return StepLengths(columns, round(100 * median_ns / longest, 2), section)


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    ns: float
    idle_ns: float
    counted: bool


def _steps(diagnosis: Diagnosis) -> list[_Step]:
    table = diagnosis.timeline.tables.steps
    columns = (table[name].tolist() for name in ("number", "start_ns", "end_ns", "kept"))
    idle = _idle(diagnosis, len(table))
    return [
        _Step(int(number), float(end - start), min(float(idle[row]), float(end - start)), bool(kept))
        for row, (number, start, end, kept) in enumerate(zip(*columns, strict=True))
    ][:MOST]


def _idle(diagnosis: Diagnosis, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Idle time of the first GPU per step; zero where no gap was seen, which without a GPU is everywhere."""
    gaps, idle = diagnosis.timeline.tables.gaps, np.zeros(count)
    if len(gaps):
        mine = gaps[(gaps["device"] == gaps["device"][0]) & (gaps["step"] >= 0) & (gaps["step"] < count)]
        np.add.at(idle, mine["step"], mine["end_ns"] - mine["start_ns"])
    return idle


def _column(step: _Step, longest: float) -> StepColumn:
    told = {"number": step.number, "time": short_ms(step.ns), "idle": short_ms(step.idle_ns)}
    title = say("Step {number}: {time} ms, GPU idle {idle} ms", **told)
    if not step.counted:
        title = say("{step}; not in the statistics", step=title)
    busy, idle = (round(100 * ns / longest, 2) for ns in (step.ns - step.idle_ns, step.idle_ns))
    return StepColumn(step.number, busy, idle, step.counted, title)


def _section(counted: Sequence[_Step], median_ns: float, with_gaps: bool) -> Section:
    longest, shortest = max(counted, key=lambda step: step.ns), min(counted, key=lambda step: step.ns)
    rows: list[tuple[str, ...]] = [
        (say("steps counted"), str(len(counted))),
        (say("median, ms"), short_ms(median_ns)),
        (
            say("steps {shortest} and {longest}, ms", shortest=shortest.number, longest=longest.number),
            say("{low} to {high}", low=short_ms(shortest.ns), high=short_ms(longest.ns)),
        ),
    ]
    if with_gaps:
        idle = [step.idle_ns for step in counted]
        spread = say("{low} to {high}", low=short_ms(min(idle)), high=short_ms(max(idle)))
        rows.append((say("GPU idle in a step, ms"), spread))
    lede = say(
        "Recorded steps, with the profiler. The longest takes {times:.1f} times the median. "
        "Grey steps are not in the statistics.",
        times=longest.ns / max(median_ns, 1),
    )
    table = Table((say("recorded steps"), say("value")), tuple(rows), frozenset({1}))
    return Section("steps", say("From step to step"), lede=lede, table=table)
