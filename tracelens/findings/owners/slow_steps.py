"""What slow steps are spent on: owners of what they add to the mean step.

In: a Timeline that has slow steps, and the recording. Out: `SlowSteps`, and an Owner per line. Such a step was clocked
after the windows where it came soon enough; else the samples of the stack in a recorded one tell the line. How much
longer it takes is known from the steps before the profiler; which lines take it, from those that were looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tracelens.findings.owners import slow_lines
from tracelens.findings.owners.operations import COLLECTION
from tracelens.findings.owners.slow_lines import SlowLine, Spent, Under
from tracelens.messages import say
from tracelens.model import (
    GarbageCollection,
    LineLog,
    Owner,
    RankRecording,
    SlowPattern,
    SlowRows,
    SlowSteps,
    Timeline,
)
from tracelens.trace.lines import LineStep, fold

MOSTLY = 0.5
"""Of what a slow step takes longer: then its lines are known, or the collector is the reason."""
MOST_RECORDED = 200
"""Steps that `--steps` is advised to record for the sake of one of them."""


def collect(timeline: Timeline, recording: RankRecording | None) -> tuple[SlowSteps | None, tuple[Owner, ...]]:
    """The slow steps and who owns them; (None, ()) where none is worth a word."""
    apart = _confirmed(timeline.slow, recording)
    if apart is None or recording is None:
        return None, ()
    owners, explained = _owners(timeline, recording, apart)
    pattern = apart.pattern
    if pattern.every is None and not owners:  # they come at random and at no line: the machine, as far as anybody knows
        return None, ()
    excess = sum(pattern.excess_ns) / pattern.seen
    low, high = pattern.limits_ns
    is_known = explained >= MOSTLY
    longer = None if is_known else _longer_recording(pattern)
    slow = SlowSteps(
        seen=pattern.seen,
        steps=pattern.steps,
        every=pattern.every,
        ordinary_ns=pattern.ordinary_ns,
        mean_ns=round(pattern.mean_ns),
        excess_ns=round(excess),
        per_step_ns=round(apart.per_step_ns),
        low_ns=round(min(low, apart.per_step_ns)),
        high_ns=round(max(high, apart.per_step_ns)),
        explained=explained,
        reason=None if is_known else _reason(longer),
        record_steps=longer,
    )
    return slow, tuple(_with_numbers(owner, part, slow) for owner, part in owners)


def _confirmed(apart: SlowRows | None, recording: RankRecording | None) -> SlowRows | None:
    """With the period of two slow steps, where a third one came when it was due."""
    number = _clocked_number(recording) if recording is not None else None
    if apart is None or number is None or apart.pattern.every is not None:
        return apart
    return replace(apart, pattern=replace(apart.pattern, every=apart.pattern.likely_every))


def _clocked_number(recording: RankRecording) -> int | None:
    """The slow step behind the windows."""
    number = (recording.meta.get("slow_step") or {}).get("number")
    return number if isinstance(number, int) else None


def _longer_recording(pattern: SlowPattern) -> int | None:
    """So many recorded steps have a slow one among them; None where that would be too many."""
    steps = int(2 * pattern.distance)
    return max(steps, 12) if steps <= MOST_RECORDED else None


def _reason(longer: int | None) -> str:
    """Why no line is known of most of it."""
    if longer is None:
        return say("no such step was looked at: they come too rarely for a recording")
    return say("no such step was looked at long enough; record again with --steps {steps}", steps=longer)


def _with_numbers(owner: Owner, part: float, slow: SlowSteps) -> Owner:
    """What the owner adds to the mean step: its line's own time, and at most what no line was seen for besides, which
    may be what it leaves behind (a queue that runs empty, a cold cache)."""
    left = 1.0 - slow.explained
    middle, low, high = round(part * slow.per_step_ns), round(part * slow.low_ns), round((part + left) * slow.high_ns)
    return replace(owner, recoverable_ns=middle, low_ns=low, high_ns=high, evidence="measured", occurrences=slow.seen)


def _owners(timeline: Timeline, recording: RankRecording, apart: SlowRows) -> tuple[list[tuple[Owner, float]], float]:
    """Owners with their part of what a slow step takes longer, and the sum of the parts."""
    looked = _Looked(timeline, recording, apart)
    found = looked.clocked() or looked.sampled()
    if apart.pattern.every is None:  # a line that takes longer now and then may be where the machine was busy
        found = tuple(line for line in found if line.alone)
    collected = looked.collections()
    if collected is not None:
        return [collected], collected[1]
    owners = [(Owner("host_line", 0, (line.location,), line.function), line.part) for line in found]
    return owners, min(1.0, sum(part for _, part in owners))


@dataclass(frozen=True)
class _Looked:
    """What was seen of slow steps and of ordinary ones."""

    timeline: Timeline
    recording: RankRecording
    apart: SlowRows

    def clocked(self) -> tuple[SlowLine, ...]:
        """By the line clock; of a slow step that it saw behind the windows."""
        log, number = self.recording.slow_lines, _clocked_number(self.recording)
        if log is None or number is None:
            return ()
        steps = fold(log)
        slow = [_spent(log, step) for step in steps if step.number == number]
        ordinary = [_spent(log, step) for step in steps if step.number != number]
        if self.recording.lines is not None and not ordinary:
            ordinary = [_spent(self.recording.lines, step) for step in fold(self.recording.lines)]
        return slow_lines.lines(slow, ordinary)

    def sampled(self) -> tuple[SlowLine, ...]:
        """By the samples of the stack in recorded steps, each of which stands for the time since the one before."""
        steps = self.timeline.tables.steps
        return slow_lines.lines(
            [self._samples_of(row) for row in self.apart.rows],
            [self._samples_of(row) for row in np.flatnonzero(steps["kept"]).tolist()],
        )

    def collections(self) -> tuple[Owner, float] | None:
        """Python's own collector, where it runs for most of what slow steps take longer."""
        spans = self._slow_spans()
        inside = [one for one in self.recording.collections if _within(one, spans)]
        total = sum(one.end_unix_ns - one.start_unix_ns for one in inside)
        part = total / max(1, len(spans)) / (sum(self.apart.pattern.excess_ns) / self.apart.pattern.seen)
        if part < MOSTLY:
            return None
        longest = max(inside, key=lambda one: one.end_unix_ns - one.start_unix_ns)
        places = (longest.location,) if longest.location is not None else ()
        return Owner("host_line", 0, places, COLLECTION.format(longest.generation)), min(1.0, part)

    def _samples_of(self, row: int) -> Spent:
        zero, steps = self.timeline.trace.base_unix_ns or 0, self.timeline.tables.steps
        start, end = int(steps["start_ns"][row]) + zero, int(steps["end_ns"][row]) + zero
        spent: Counter[Under] = Counter()
        before = start
        for sample in self.recording.samples:
            if start <= sample.unix_ns < end and sample.thread == self.timeline.main_thread:
                spent[(sample.location,)] += sample.unix_ns - before
                before = sample.unix_ns
        spent[()] += end - before
        return spent

    def _slow_spans(self) -> list[tuple[int, int]]:
        zero, steps = self.timeline.trace.base_unix_ns or 0, self.timeline.tables.steps
        spans = [(int(steps["start_ns"][row]) + zero, int(steps["end_ns"][row]) + zero) for row in self.apart.rows]
        log = self.recording.slow_lines
        clocked = log.steps if log is not None else ()
        return spans + [
            (step.start_unix_ns, step.end_unix_ns) for step in clocked if step.number == _clocked_number(self.recording)
        ]


def _within(one: GarbageCollection, spans: Iterable[tuple[int, int]]) -> bool:
    return any(start <= one.start_unix_ns < end for start, end in spans)


def _spent(log: LineLog, step: LineStep) -> Spent:
    """Time per lines under way, without what the clock took."""
    spent: Counter[Under] = Counter()
    for interval in step.intervals:
        spent[tuple(map(log.location, interval.path))] += interval.weight_ns
    return spent
