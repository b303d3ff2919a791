"""Which line of the project the host was at in every kept step: the log of the line clock, folded and carried over.

In: a Timeline, its host operations and the recording. Out: `HostLines`, intervals that fill the kept steps. Without a
log the trace's own Python frames tell the function, by the line of its `def`; without those every interval is
unmatched, and `missing` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.findings.kept_steps import KeptSteps
from tracelens.findings.owners.join import (
    NO_SAMPLES,
    UNMATCHED,
    HostSpans,
    LineSamples,
    StepLines,
    StepOperations,
    carry,
    laid_over,
)
from tracelens.findings.owners.operations import HostOperations
from tracelens.messages import say
from tracelens.model import Location, RankRecording, Timeline
from tracelens.trace import intervals, python_frames
from tracelens.trace.lines import LineStep, Path, fold
from tracelens.trace.tables import TraceRows

Column = npt.NDArray[Any]

NOT_RECORDED = say("the recording does not say which line ran: record with tracelens profile")
NO_CLOCK = say("the recording holds no times per source line")
NO_FUNCTION = say("no function of the project was under way")
NOT_ALIKE = say("no attributed step runs the same operations here")
RAN_IN_NONE = say("it ran in no attributed step")
FEWEST_PASSES = 8
"""Of a line in each attributed step: with fewer it is no loop that is worth another form."""


@dataclass(frozen=True)
class HostLines:
    """Intervals in order that fill the kept steps. `paths`: numbers in `places`, or those of the join."""

    spans: HostSpans
    places: tuple[tuple[Location, ...], ...]
    """The project's lines under way, the innermost first."""
    missing: str
    """Why an interval has no line."""
    repeated: frozenset[int] = frozenset()
    """The numbers of those whose innermost line an attributed step ran so often that it stands in a loop."""

    def at(self, instants: Column) -> Column:
        """The number of the lines under way at each instant."""
        last = np.searchsorted(self.spans.starts, instants, side="right") - 1
        return np.asarray(self.spans.paths[np.maximum(last, 0)])


def collect(
    timeline: Timeline, kept: KeptSteps, operations: HostOperations, recording: RankRecording | None
) -> HostLines:
    """The lines of the kept steps."""
    clean = operations.of_steps(kept.starts, kept.ends)
    log = recording.lines if recording else None
    if log is None or timeline.trace.base_unix_ns is None:
        framed = _framed(timeline, kept)
        if framed is not None:
            return framed
        return HostLines(_joined([carry(step, []) for step in clean]), (), NO_CLOCK if recording else NOT_RECORDED)
    numbers: dict[Path, int] = {}
    attributed = _attributed(timeline, operations, fold(log), numbers)
    places = [tuple(map(log.location, reversed(path))) for path in numbers]
    samples = _samples(timeline, recording, places) if recording else NO_SAMPLES
    spans = _joined([carry(step, attributed, samples) for step in clean])
    spans = _with_collections(spans, timeline, recording, places) if recording else spans
    return HostLines(spans, tuple(places), NOT_ALIKE, _repeated([lines for _, lines in attributed], len(places)))


def _repeated(steps: Sequence[StepLines], count: int) -> frozenset[int]:
    """Which of `count` paths ran in each of these steps at least `FEWEST_PASSES` times."""
    if not steps:
        return frozenset()
    passes = np.min([np.bincount(step.paths, minlength=count) for step in steps], axis=0)
    return frozenset(np.flatnonzero(passes >= FEWEST_PASSES).tolist())


def _framed(timeline: Timeline, kept: KeptSteps) -> HostLines | None:
    """The project's functions by the trace's own Python frames; None where it has none."""
    rows = TraceRows(timeline.trace)
    frames = rows.in_categories(("python_function",))
    frames = frames[rows.column("tid")[frames] == timeline.main_thread]
    if not len(frames):
        return None
    borders = (kept.starts, kept.ends, rows.column("start_ns")[frames], rows.column("end_ns")[frames])
    bounds = intervals.distinct(np.concatenate(borders))
    inside = intervals.inside(kept.covered, bounds[:-1])
    starts, ends = bounds[:-1][inside], bounds[1:][inside]
    places = python_frames.innermost(rows, np.full(len(starts), timeline.main_thread), starts)
    number: dict[Location, int] = {}
    paths = [UNMATCHED if place is None else number.setdefault(place, len(number)) for place in places]
    spans = HostSpans(starts, ends, np.array(paths, dtype=np.int64))
    return HostLines(spans, tuple((place,) for place in number), NO_FUNCTION) if number else None


def _samples(timeline: Timeline, recording: RankRecording, places: list[tuple[Location, ...]]) -> LineSamples:
    """The stack samples of the training thread; lines that no attributed step ran are added to `places`."""
    zero = timeline.trace.base_unix_ns or 0
    lines: dict[Location, int] = {}
    path_of: list[int] = []
    line_of = []
    for number, path in enumerate(places):
        line = lines.setdefault(path[0], len(lines)) if path else -1
        line_of.append(line)
        if line == len(path_of):
            path_of.append(number)
    rows = []
    for sample in sorted(recording.samples, key=lambda sample: sample.unix_ns):
        if sample.thread != timeline.main_thread:
            continue
        line = lines.setdefault(sample.location, len(lines))
        if line == len(path_of):
            path_of.append(len(places))
            places.append((sample.location,))
            line_of.append(line)
        rows.append((sample.unix_ns - zero, line))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    return LineSamples(columns[0], columns[1], np.array(line_of, dtype=np.int64), np.array(path_of, dtype=np.int64))


def _with_collections(
    spans: HostSpans, timeline: Timeline, recording: RankRecording, places: list[tuple[Location, ...]]
) -> HostSpans:
    """Where Python collected garbage the recording has the line itself; what is carried over knows it by its share."""
    zero = timeline.trace.base_unix_ns or 0
    known = {(path[0].path, path[0].line): number for number, path in reversed(list(enumerate(places))) if path}
    rows = []
    for each in sorted(recording.collections, key=lambda each: each.start_unix_ns):
        if each.thread != timeline.main_thread or each.location is None:
            continue
        number = known.setdefault((each.location.path, each.location.line), len(places))
        if number == len(places):
            places.append((each.location,))
        rows.append((each.start_unix_ns - zero, each.end_unix_ns - zero, number))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return laid_over(spans, HostSpans(columns[0], columns[1], columns[2]))


def _attributed(
    timeline: Timeline, operations: HostOperations, steps: tuple[LineStep, ...], numbers: dict[Path, int]
) -> list[tuple[StepOperations, StepLines]]:
    """The attributed steps that both the trace and the clock have."""
    table = timeline.tables.steps
    clocked = {step.number: step for step in steps}
    rows = table[table["attributed"] & np.isin(table["number"], list(clocked))]
    cut = operations.of_steps(rows["start_ns"], rows["end_ns"])
    zero = timeline.trace.base_unix_ns or 0
    return [
        (step, _step_lines(clocked[int(number)], zero, numbers))
        for step, number in zip(cut, rows["number"], strict=True)
    ]


def _step_lines(step: LineStep, zero: int, numbers: dict[Path, int]) -> StepLines:
    rows = [
        (each.start_ns - zero, each.end_ns - zero, each.weight_ns, numbers.setdefault(each.path, len(numbers)))
        for each in step.intervals
    ]
    return StepLines(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def _joined(steps: list[HostSpans]) -> HostSpans:
    return HostSpans(*(np.concatenate([getattr(step, key) for step in steps]) for key in ("starts", "ends", "paths")))
