"""The first screen of `analyze` and `recommend`, and the closing lines of `profile`, in a terminal.

In: a FirstScreen. Out: blocks. A column of numbers is never broken; a line of source is cut where its times begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from tracelens.report import terminal
from tracelens.report.first_screen import FirstScreen, LeverRow
from tracelens.report.formatting import DASH, clean, short_ms
from tracelens.report.line_times import CostlyLine
from tracelens.report.step_strip import StepStrip, StripLane

TIME_WIDTH = 12
"""Columns of a time: as wide as "host blocked"."""
LEAST_SOURCE = 8
BUSY, IDLE = "█", "·"
NAMES = ("now", "then")
LONE = "> "
"""Before the one line that is changed, among others."""


def blocks(screen: FirstScreen, next_command: str) -> Iterator[RenderableType]:
    """Verdict, lines, one step, levers, next command."""
    yield from head(screen)
    yield from annotated(screen.lines, screen.time_columns, screen.beside_lines)
    yield from pictured(screen.strip)
    if screen.levers:
        yield Text()
        yield _Levers(screen.levers)
    yield Text()
    for note in _notes(screen):
        yield terminal.paragraph(note, "dim")
    yield terminal.next_command(next_command)


def head(screen: FirstScreen) -> Iterator[RenderableType]:
    """What was recorded, the headline, and what the recommended change comes to, else the verdict."""
    yield terminal.subject(screen.subject)
    yield from _answer(screen)
    if screen.batch:
        yield terminal.paragraph(screen.batch)


def _answer(screen: FirstScreen) -> Iterator[RenderableType]:
    if not screen.headline:
        yield terminal.verdict(screen.verdict)
        return
    headline = f"{screen.headline.rstrip('.')}."
    yield terminal.verdict(headline)
    more = screen.instead or screen.verdict
    if more != headline:
        yield terminal.paragraph(more)


def closing(screen: FirstScreen) -> Iterator[RenderableType]:
    """What `profile` says at its end: the headline, the lines to change, what the change comes to."""
    yield terminal.verdict(f"{screen.headline.rstrip('.')}." if screen.headline else screen.verdict)
    for line in screen.lines:
        if line.changed:
            yield Text(f"    {clean(str(line.place.path))}:{line.place.line}  {clean(line.text.strip())}", no_wrap=True)
    if screen.instead or screen.headline:
        yield terminal.paragraph(screen.instead or screen.verdict)


def annotated(lines: Sequence[CostlyLine], time_columns: tuple[str, str], beside: str = "") -> Iterator[RenderableType]:
    """Lines of source with their two times, and what they give back together."""
    if lines:
        yield Text()
        yield _AnnotatedLines(lines, time_columns)
    if beside:
        yield terminal.paragraph(beside, "dim")


def pictured(strip: StepStrip | None) -> Iterator[RenderableType]:
    """The step of the GPU, now and then, on one scale."""
    lanes = [(lane, step.step_ns) for step in strip.steps if (lane := step.gpu) is not None] if strip else []
    if lanes:
        yield Text()
        yield _Lanes(lanes)


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
class _Levers:
    """A table of levers; where there is room, with what to type for each."""

    rows: Sequence[LeverRow]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            ("", [row.rank for row in self.rows]),
            ("lever", [row.lever for row in self.rows]),
            ("lines", [row.lines for row in self.rows]),
            ("step, ms", [row.step for row in self.rows]),
            ("gain", [row.gain for row in self.rows]),
            ("evidence", [row.evidence for row in self.rows]),
        ]
        shown = [(name, cells) for name, cells in columns if set(cells) - {"", DASH} or name in ("", "lever")]
        commands = ("to measure or write it", [row.command or "by hand" for row in self.rows])
        if any(row.command for row in self.rows) and _width([*shown, commands]) <= options.max_width:
            shown.append(commands)
        numbers = frozenset(place for place, (name, _) in enumerate(shown) if name in ("", "gain"))
        yield terminal.table([name for name, _ in shown], zip(*(cells for _, cells in shown), strict=True), numbers)


@dataclass(frozen=True)
class _Lanes:
    """Two strips on one scale with their times behind them, and what the signs mean."""

    lanes: Sequence[tuple[StripLane, int]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        times = [f"{short_ms(step_ns)} ms" for _, step_ns in self.lanes]
        names = max(map(len, NAMES[: len(self.lanes)]))
        room = options.max_width - terminal.INDENT - names - max(map(len, times)) - 2 * terminal.GAP
        for name, (lane, _), time in zip(NAMES, self.lanes, times, strict=False):
            yield _row(f"{name:<{names + terminal.GAP}}{strip_of(lane, room):<{room + terminal.GAP}}{time}", "")
        yield _row(f"{'':<{names + terminal.GAP}}GPU: {BUSY} busy  {IDLE} idle", "dim")


def _width(columns: Sequence[tuple[str, Sequence[str]]]) -> int:
    """Of a table with these columns, none of them broken."""
    return terminal.INDENT + sum(max(len(name), *map(len, cells)) + terminal.GAP for name, cells in columns)


def strip_of(lane: StripLane, room: int) -> str:
    """The parts of a step as characters; kernels are seen however short they are."""
    out = ""
    for segment in lane.segments:
        end = max(round(room * (segment.x + segment.width) / 100), len(out) + (segment.kind == "gpu"))
        out += (IDLE if segment.kind == "lost" else BUSY) * (end - len(out))
    return out


@dataclass(frozen=True)
class _AnnotatedLines:
    """Source lines with two times each, as a profiler's margin; lines that one change is about are bracketed."""

    lines: Sequence[CostlyLine]
    time_columns: tuple[str, str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(options.max_width - terminal.INDENT - 2 * (TIME_WIDTH + terminal.GAP), LEAST_SOURCE)
        paths = list(dict.fromkeys(line.place.path for line in self.lines))
        first, second = (f"{name:>{TIME_WIDTH + terminal.GAP}}" for name in self.time_columns)
        width = max(len(str(line.place.line)) for line in self.lines)
        brackets = _brackets(self.lines)
        for number, path in enumerate(paths):
            title = _cut(f"{clean(path)}, ms per step", room)
            head = f"{title:<{room}}{first}{second}" if number == 0 else title
            yield _row(head, "dim")
            for line, bracket in zip(self.lines, brackets, strict=True):
                if line.place.path == path:
                    yield _row(self._line(line, bracket, width, room), "")

    def _line(self, line: CostlyLine, bracket: str, width: int, room: int) -> str:
        source = _cut(f"{bracket}{line.place.line:>{width}}  {clean(line.text)}", room)
        times = (f"{short_ms(ns):>{TIME_WIDTH + terminal.GAP}}" for ns in (line.host_blocked_ns, line.gpu_idle_ns))
        return f"{source:<{room}}{''.join(times)}"


def _brackets(lines: Sequence[CostlyLine]) -> list[str]:
    """What stands before each line; nothing where none of several is changed."""
    changed = [index for index, line in enumerate(lines) if line.changed]
    if len(changed) < 2:
        return [LONE if line.changed else "  " for line in lines] if changed and len(lines) > 1 else ["" for _ in lines]
    first, last = changed[0], changed[-1]
    signs = {first: "╭ ", last: "╰ "}
    return [
        signs.get(index, "├ " if lines[index].changed else "│ " if first < index < last else "  ")
        for index in range(len(lines))
    ]


def _row(text: str, style: str) -> Text:
    return Text(f"{' ' * terminal.INDENT}{text}".rstrip(), style=style, no_wrap=True, overflow="ignore")


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
