"""Sentences in lines of a terminal."""

from __future__ import annotations

import pytest

from tracelens.messages import say
from tracelens.report import terminal, wrapping
from tracelens.report.terminal import TerminalStyle

COMMAND = f"tracelens apply {'a' * 40}/{'b' * 40}/run --lever event-interval --dry-run"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("the GPU is busy 23 % now", 18, ["the GPU is busy", "23 % now"]),
        ("takes 7.9 ms of 25.4 ms", 9, ["takes", "7.9 ms of", "25.4 ms"]),
        ("5 seconds", 4, ["5", "seco", "nds"]),
        ("pair 1 22.8 → 17.1 ms", 14, ["pair 1", "22.8 → 17.1 ms"]),
        ("steps: 26.7 ms → 30.1 ms", 18, ["steps:", "26.7 ms → 30.1 ms"]),
        ("measured, +30 to +74 %", 20, ["measured,", "+30 to +74 %"]),
        ("one\ntwo", 80, ["one", "two"]),
        ("", 80, [""]),
        ("等待批次", 4, ["等待", "批次"]),
    ],
)
def test_a_number_stays_beside_its_unit(text: str, width: int, lines: list[str]) -> None:
    assert wrapping.wrapped(text, width) == lines


@pytest.mark.parametrize("width", [40, 80])
def test_a_command_at_the_end_of_a_sentence_gets_a_line_of_its_own(width: int) -> None:
    said = say("1 more change needs --unsafe; see it: {command}", command=COMMAND)
    lines = terminal.draw([terminal.paragraph(said)], TerminalStyle(width)).splitlines()
    assert lines[-1].strip() == COMMAND
    assert " ".join(line.strip() for line in lines[:-1]) == "1 more change needs --unsafe; see it:"
    assert all(len(line) <= width for line in lines[:-1])


def test_a_short_command_stays_in_its_sentence() -> None:
    said = say("see it: {command}", command="tracelens apply run")
    assert terminal.draw([terminal.paragraph(said)], TerminalStyle(80)) == "  see it: tracelens apply run\n"
