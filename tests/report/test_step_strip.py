"""One step now and then: one drawing for page, card and terminal, as long as the baseline and as busy as recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tracelens.report import screen_text, text
from tracelens.report.first_screen import first_screen
from tracelens.report.step_strip import GPU, Segment, StripLane
from tracelens.report.terminal import TerminalStyle


def lane(*parts: tuple[str, float]) -> StripLane:
    segments, x = [], 0.0
    for kind, width in parts:
        segments.append(Segment(kind, width, x, width, "", "", ""))
        x += width
    return StripLane(GPU, tuple(segments), "")


@pytest.mark.parametrize(
    ("parts", "drawn"),
    [
        ((("lost", 50), ("gpu", 50)), "·····█████"),
        ((("lost", 20), ("copy", 10), ("lost", 10), ("gpu", 30)), "··█·███"),  # a shorter step on the same scale
        ((("lost", 4), ("gpu", 96)), "██████████"),
        ((("lost", 99.6), ("gpu", 0.4)), "··········█"),  # it works, so it is seen
        ((("gpu", 100),), "██████████"),
    ],
)
def test_a_step_in_a_terminal_has_the_parts_of_the_page(parts: tuple[tuple[str, float], ...], drawn: str) -> None:
    assert screen_text.strip_of(lane(*parts), 10) == drawn


def test_page_and_terminal_draw_the_same_steps() -> None:
    screen = first_screen(cases.recommended())
    assert screen.strip is not None and screen.then is not None
    now, then = screen.strip.steps
    assert (now.step_ns, then.step_ns) == (cases.recommended().steps.best_known_ns, screen.then.step_ns)
    for step in (now, then):
        assert step.gpu is not None
        assert sum(part.ns for part in step.gpu.segments) == pytest.approx(step.step_ns, rel=0.01)
    drawn = text.recommendation(cases.recommended(), TerminalStyle(80)).splitlines()
    assert [line.split()[0] for line in drawn if "█" in line][:2] == ["now", "then"]


def test_without_steps_nothing_is_drawn() -> None:
    diagnosis = cases.recommended()
    screen = first_screen(replace(diagnosis, steps=replace(diagnosis.steps, source="none")))
    assert screen.strip is None
