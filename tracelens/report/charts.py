"""Geometry of the small pictures: breakdown bar, predicted beside measured, utilization.

In: model values. Out: frozen geometry in SVG units; the template writes it down. Every picture has a table beside it on
the page, so nothing is said by a picture alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.messages import say
from tracelens.model import Breakdown, Verification
from tracelens.report.formatting import DASH, gain, says
from tracelens.report.wording import PARTS, shown_parts

WIDTH = 920.0
BAR_LABEL = 150.0
ROOM_FOR_TEXT = 64.0
SAMPLE_POINTS = 400
"""Points per curve: more than the picture has pixels for shows nothing more."""


@dataclass(frozen=True, slots=True)
class BreakdownSegment:
    part: str
    name: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class SpeedupInterval:
    """One dumbbell: [low, high] with the value in it, x in drawing units."""

    kind: str
    low: float
    mid: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class PredictionGrade:
    """Predicted and measured speedup of one scheme on one axis; `zero` is where "no change" lies."""

    scheme: str
    rows: tuple[SpeedupInterval, ...]
    zero: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class UtilizationCurve:
    """`pieces` are polylines; a missing sample ends one, so that a gap stays a gap."""

    name: str
    pieces: tuple[str, ...]
    mean: str


@dataclass(frozen=True, slots=True)
class Utilization:
    curves: tuple[UtilizationCurve, ...]
    seconds: float
    ticks: tuple[tuple[float, str], ...]
    averaged: bool
    """Whether enough samples are known to be of the training; else there is no mean."""

    @property
    def has_means(self) -> bool:
        return says(curve.mean for curve in self.curves)


def breakdown(times: Breakdown | None) -> tuple[BreakdownSegment, ...]:
    """The parts of a step side by side, in percent; together exactly 100."""
    out, x = [], 0.0
    for part, _, share in shown_parts(times):
        out.append(BreakdownSegment(part, PARTS[part][0], round(x, 2), round(100 * share, 2)))
        x += 100 * share
    return tuple(out)


def prediction_grade(trial: Verification) -> PredictionGrade | None:
    """None unless something was measured to hold the prediction against."""
    if trial.ratio is None or trial.speedup is None:
        return None
    spans = [("measured", 1 / trial.ratio.high, trial.speedup, 1 / trial.ratio.low)]
    if trial.predicted is not None:
        p = trial.predicted
        spans.insert(0, ("predicted", p.base_ns / p.high_ns, p.speedup, p.base_ns / p.low_ns))
    least = min(0.98, *(low for _, low, _, _ in spans))
    most = max(1.02, *(high for *_, high in spans))
    scale = (WIDTH - BAR_LABEL - 90.0) / (most - least)

    def x(speedup: float) -> float:
        return round(BAR_LABEL + (speedup - least) * scale, 1)

    rows = tuple(SpeedupInterval(k, x(low), x(mid), x(high), gain(mid)) for k, low, mid, high in spans)
    marks = (least, 1.0, most) if x(1.0) - x(least) > ROOM_FOR_TEXT else (1.0, most)
    ticks = tuple((x(value), gain(value)) for value in marks)
    return PredictionGrade(trial.scheme or say("your change"), rows, x(1.0), ticks)


def utilization(
    rows: Sequence[Mapping[str, Any]], series: Mapping[str, Sequence[float | None]], counted: Sequence[bool] = ()
) -> Utilization | None:
    """Curves over the time of the samples; `rows` carry `unix_ns`, `series` one value or None per row. `counted` says
    which rows an average is over; all without it. Where it says none, there is no average."""
    times = [int(row["unix_ns"]) for row in rows if "unix_ns" in row]
    if len(times) < 2 or len(times) != len(rows) or times[-1] <= times[0]:
        return None
    span = times[-1] - times[0]
    x = [(t - times[0]) / span * (WIDTH - 60.0) + 50.0 for t in times]
    every = max(1, len(times) // SAMPLE_POINTS)
    chosen = counted or [True] * len(rows)
    curves = tuple(
        UtilizationCurve(
            name,
            _pieces(x[::every], list(values)[::every]),
            _mean(values, chosen),
        )
        for name, values in series.items()
    )
    ticks = tuple((round(50.0 + k * (WIDTH - 60.0) / 4, 1), f"{span / 4e9 * k:.1f} s") for k in range(5))
    return Utilization(curves, span / 1e9, ticks, any(chosen))


def _pieces(x: Sequence[float], values: Sequence[float | None]) -> tuple[str, ...]:
    pieces: list[list[str]] = [[]]
    for at, value in zip(x, values, strict=True):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{at:.1f},{10 + (100 - min(max(value, 0.0), 100.0)) * 1.2:.1f}")
    return tuple(" ".join(piece) for piece in pieces if len(piece) > 1)


def _mean(values: Sequence[float | None], chosen: Sequence[bool]) -> str:
    """Of the chosen samples; a dash where none of those has a value."""
    if all(value is None for value in values):
        return say("not available")
    known = [value for value, one in zip(values, chosen, strict=True) if one and value is not None]
    return f"{sum(known) / len(known):.0f} %" if known else DASH
