"""The first screen of `recommend` in a terminal.

In: a FirstScreen. Out: blocks. A column of numbers is never broken; a line of source is cut where its times begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from tracelens.report import terminal
from tracelens.report.first_screen import CostlyLine, FirstScreen, short_ms
from tracelens.report.formatting import clean

TIME_WIDTH = 12
"""Columns of a time: as wide as "host blocked"."""
LEAST_SOURCE = 20


def blocks(screen: FirstScreen, next_command: str) -> Iterator[RenderableType]:
    """Verdict, lines, levers, next command."""
    yield Text(clean(screen.subject), style="dim")
    if screen.headline:
        yield terminal.verdict(f"{screen.headline.rstrip('.')}.")
        yield terminal.paragraph(screen.verdict)
    else:
        yield terminal.verdict(screen.verdict)
    if screen.lines:
        yield Text()
        yield _AnnotatedLines(screen.lines, screen.time_columns)
    if screen.beside_lines:
        yield terminal.paragraph(screen.beside_lines, "dim")
    if screen.levers:
        yield Text()
        columns = ("", "lever", "lines", "step, ms", "gain", "evidence")
        rows = [(row.rank, row.lever, row.lines, row.step, row.gain, row.evidence) for row in screen.levers]
        yield terminal.table(columns, rows, frozenset({0, 4}))
    yield Text()
    for note in _notes(screen):
        yield terminal.paragraph(note, "dim")
    yield terminal.next_command(next_command)


def _notes(screen: FirstScreen) -> Iterator[str]:
    if screen.measured:
        yield screen.measured
    if screen.about_patch:
        yield screen.about_patch
    more = []
    if screen.more_levers:
        more.append(f"{screen.more_levers} more lever{'' if screen.more_levers == 1 else 's'}")
    if screen.unjudged:
        more.append(f"{screen.unjudged} thing{'' if screen.unjudged == 1 else 's'} not judged")
    yield f"With -v: {', '.join([*more, 'scores, the plan and the diff'])}."


@dataclass(frozen=True)
class _AnnotatedLines:
    """Source lines with two times each, as a profiler's margin."""

    lines: Sequence[CostlyLine]
    time_columns: tuple[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(options.max_width - terminal.INDENT - 2 * (TIME_WIDTH + terminal.GAP), LEAST_SOURCE)
        paths = list(dict.fromkeys(line.place.path for line in self.lines))
        first, second = (f"{name:>{TIME_WIDTH + terminal.GAP}}" for name in self.time_columns)
        width = max(len(str(line.place.line)) for line in self.lines)
        for number, path in enumerate(paths):
            title = _cut(f"{clean(path)}, ms per step", room)
            head = f"{title:<{room}}{first}{second}" if number == 0 else title
            yield _row(head, "dim")
            for line in self.lines:
                if line.place.path == path:
                    yield _row(self._line(line, width, room), "")

    def _line(self, line: CostlyLine, width: int, room: int) -> str:
        source = _cut(f"{line.place.line:>{width}}  {clean(line.text)}", room)
        times = (f"{short_ms(ns):>{TIME_WIDTH + terminal.GAP}}" for ns in (line.host_blocked_ns, line.gpu_idle_ns))
        return f"{source:<{room}}{''.join(times)}"


def _row(text: str, style: str) -> Text:
    return Text(f"{' ' * terminal.INDENT}{text}", style=style, no_wrap=True, overflow="ignore")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
