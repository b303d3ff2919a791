"""Where one step time describes no step: two kinds of steps, and what the profiler made of them."""

from __future__ import annotations

import re

import pytest

from tests.support.sample_plans import sample_plan
from tracelens.report import html, markdown, recorded_pace, text
from tracelens.report.terminal import TerminalStyle

ALTERNATING = [4.7, 15.1, 4.2, 16.2, 4.1, 16.1, 3.2, 16.6, 4.0, 17.6]


@pytest.mark.parametrize(
    ("lengths", "kinds"),
    [
        (ALTERNATING, (5, 5)),
        ([10.0, 10.2, 9.9, 10.1, 10.0, 30.0], None),  # one that something disturbed
        ([10.0, 10.5, 11.0, 11.5, 12.0, 12.5], None),  # no gap
        (ALTERNATING[:4], None),  # too few
        ([1.0] * 3 + [2.0] * 7, (3, 7)),
    ],
)
def test_steps_are_of_two_kinds_where_a_wide_gap_parts_many_of_each(
    lengths: list[float], kinds: tuple[int, int] | None
) -> None:
    found = recorded_pace.two_kinds(lengths)
    assert (None if found is None else tuple(map(len, found))) == kinds


SAID = {
    "loader_bound": "Of 10 recorded steps 5 took about 4.1 ms, 5 about 16.2; "
    "11.8 is the mean of many more, timed in turns.",
    "host_bound": "Under the profiler, which slows Python, a step took 9.81 ms; all times here are brought to 6.00.",
    "sync_every_batch": "",
    "gpu_bound": "",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", SAID)
def test_terminal_page_and_markdown_say_it(case: str) -> None:
    diagnosis = sample_plan(case)
    assert recorded_pace.said(diagnosis) == SAID[case]
    page = re.sub(r"</?span[^>]*>", "", html.render(diagnosis))
    for shown in (text.recommendation(diagnosis, TerminalStyle(80)), page, markdown.summary(diagnosis)):
        assert SAID[case] in " ".join(shown.split())
