"""`recommend` fits a screen on every recording that is at hand, in a narrow terminal and in a wide one."""

from __future__ import annotations

import pytest

from tests.support.recordings import RECORDED_ELSEWHERE, RUNS, plan_of
from tracelens.model import PlannedDiagnosis
from tracelens.report import text
from tracelens.report.terminal import TerminalStyle

pytestmark = pytest.mark.slow  # every recording is planned
MOST_LINES = 35


@pytest.fixture(scope="module", params=[*RUNS, *RECORDED_ELSEWHERE])
def planned(request: pytest.FixtureRequest) -> PlannedDiagnosis:
    return plan_of(request.param)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_recommend_fits_a_screen(planned: PlannedDiagnosis, width: int) -> None:
    lines = text.recommendation(planned, TerminalStyle(width)).splitlines()
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= width
    assert lines[-1].startswith("next: tracelens ")
    assert sum(line.startswith(("  1  ", "  2  ", "  3  ", "  4  ", "  5  ", "  –  ")) for line in lines) <= 5
