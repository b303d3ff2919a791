"""One step of the GPU as a lane, now and with the recommended change: when it is busy, on one scale.

In: a Diagnosis. Out: lanes with their lengths on the baseline and the busy spans as shares of the step. `now` is a step
as recorded, `then` one as replayed with the change; how long each is, is the baseline and what is known of the change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracelens.model import Diagnosis, IllustratedDiagnosis, PlannedDiagnosis
from tracelens.report.step_picture import typical


@dataclass(frozen=True, slots=True)
class StepLane:
    """`busy` are spans of the step from 0 to 1, in order and apart."""

    name: str
    step_ns: int
    busy: tuple[tuple[float, float], ...]


def lanes(diagnosis: Diagnosis) -> tuple[StepLane, ...]:
    """`now`, and `then` where what the recommended change does to a step was drawn."""
    now = _recorded(diagnosis)
    if now is None or not isinstance(diagnosis, IllustratedDiagnosis):
        return () if now is None else (now,)
    for step in diagnosis.drawn:
        after_ns = _with_change(diagnosis, step.scheme) if step.scheme is not None else None
        if after_ns is not None:
            spans = ((bar.start_ns, bar.end_ns) for bar in step.bars if bar.lane != "host")
            return now, StepLane("then", after_ns, _busy(spans, 0, step.length_ns))
    return (now,)


def _recorded(diagnosis: Diagnosis) -> StepLane | None:
    """None without steps, or without work of the GPU."""
    tables, steps = diagnosis.timeline.tables, diagnosis.steps
    chosen = typical(tables.steps) if steps.source != "none" and steps.certain else None
    if chosen is None or "gpu" not in diagnosis.timeline.trace.signals:
        return None
    spans = zip(tables.ops["start_ns"].tolist(), tables.ops["end_ns"].tolist(), strict=True)
    return StepLane("now", steps.best_known_ns, _busy(spans, int(chosen["start_ns"]), int(chosen["end_ns"])))


def _with_change(diagnosis: PlannedDiagnosis, scheme: str) -> int | None:
    """The step with the recommended change; None for any other change, and where its gain is not known."""
    lever = next((lever for lever in diagnosis.levers if lever.id == scheme), None)
    if scheme != diagnosis.recommendation.scheme or lever is None or lever.known is None:
        return None
    return round(diagnosis.steps.best_known_ns / lever.known.speedup)


def _busy(spans: Iterable[tuple[int, int]], start: int, end: int) -> tuple[tuple[float, float], ...]:
    """What of the spans lies between start and end, as shares of that time."""
    length = max(end - start, 1)
    inside = ((max(first, start), min(last, end)) for first, last in spans if first < end and last > start)
    return tuple(((first - start) / length, (last - start) / length) for first, last in _union(inside) if first < last)


def _union(spans: Iterable[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def columns(lane: StepLane, width: int) -> tuple[bool, ...]:
    """Whether the GPU is busy in each of `width` equal parts of the step.

    What is less than a column is handed on to the next, so that as many columns are busy as the GPU is.
    """
    out: list[bool] = []
    carried = 0.0
    for index in range(width):
        low, high = index / width, (index + 1) / width
        carried += width * sum(max(0.0, min(end, high) - max(start, low)) for start, end in lane.busy)
        out.append(carried >= 0.5)
        carried -= out[-1]
    return tuple(out)
