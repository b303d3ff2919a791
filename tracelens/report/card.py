"""The first screen as one picture of 1200 × 630, to paste into a pull request.

In: an IllustratedDiagnosis. Out: an SVG that loads nothing, with the numbers and words of the page's first screen.
Names come from scripts and traces: the template escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2

from tracelens.messages import joined, say, shown
from tracelens.model import IllustratedDiagnosis
from tracelens.report import answer, wording
from tracelens.report.answer import Figure, ReportAnswer
from tracelens.report.formatting import clean, shorten
from tracelens.report.step_strip import Segment, StripStep

WIDTH, LEFT, BARS_LEFT, RIGHT = 1200, 70, 230, 1130
LARGEST, CHARACTER = 49, 0.62
"""Size of the title in pixels, and the width of a character of it as a share of that size."""
FIRST_ROW, ROW, GAP = 292, 42, 46


@dataclass(frozen=True, slots=True)
class CardSegment:
    kind: str
    x: float
    width: float
    middle: float
    label: str


@dataclass(frozen=True, slots=True)
class CardRow:
    """One lane; the first of a step has its heading."""

    y: float
    heading: str
    time: str
    name: str
    segments: tuple[CardSegment, ...]
    end: float


SHORT_LANE = {"Python thread": say("Python")}


@dataclass(frozen=True, slots=True)
class Card:
    title: str
    size: int
    sub: str
    figures: tuple[Figure, ...]
    rows: tuple[CardRow, ...]
    how: str
    said: str
    """The picture in words."""


def render(diagnosis: IllustratedDiagnosis) -> str:
    """The picture as SVG."""
    return _environment().get_template("card.svg").render(card=_card(diagnosis, answer.answer(diagnosis)))


def _card(diagnosis: IllustratedDiagnosis, found: ReportAnswer) -> Card:
    title = shorten(shown(found.title), 90)
    then, strip = found.screen.then, found.screen.strip
    same = say("same results") if then is not None and then.same_results else ""
    spread = found.figures[0].range if then is not None else ""
    device = shorten(shown(wording.device(diagnosis.timeline.trace)), 40)
    if then is None:
        how = say("Recorded on {device}", device=device)
    elif then.evidence == "measured":
        how = say("Measured on {device}, {range}", device=device, range=spread)
    else:
        how = say("Predicted on {device}, {range}", device=device, range=spread)
    steps = strip.steps if strip is not None else ()
    pictures = [
        say("{name}: {parts}", name=step.title, parts=joined(", ", [lane.said for lane in step.lanes]))
        for step in steps
    ]
    said = shown(joined("; ", pictures))
    return Card(
        title=title,
        size=min(LARGEST, int((RIGHT - LEFT) / (CHARACTER * max(len(title), 1)))),
        sub=shorten(
            shown(joined(" · ", [part for part in (found.where, then.name if then else "", same) if part])), 95
        ),
        figures=found.figures,
        rows=tuple(_rows(steps)),
        how=how,
        said=clean(said) or title,
    )


def _rows(steps: tuple[StripStep, ...]) -> Iterator[CardRow]:
    y = float(FIRST_ROW)
    for step in steps:
        for number, lane in enumerate(step.lanes):
            heading, time = (shorten(shown(step.title), 60), step.time) if number == 0 else ("", "")
            segments = tuple(map(_segment, lane.segments))
            yield CardRow(y, heading, time, SHORT_LANE.get(lane.name, lane.name), segments, _x(step.end))
            y += ROW
        y += GAP


def _segment(segment: Segment) -> CardSegment:
    x, width = _x(segment.x), segment.width * (RIGHT - BARS_LEFT) / 100
    return CardSegment(segment.kind, x, round(width, 1), round(x + width / 2, 1), segment.label)


def _x(percent: float) -> float:
    return round(BARS_LEFT + percent * (RIGHT - BARS_LEFT) / 100, 1)


def _source(name: str) -> str:
    return files("tracelens.report").joinpath("parts", name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=lambda value: shown(value) if isinstance(value, str) else value,
    )
