"""The first screen of `analyze` and `recommend`, and the closing lines of `profile`, in a terminal.

In: a FirstScreen. Out: blocks. A column of numbers is never broken; a line of source is cut where its times begin.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from tracelens.messages import joined, say, say_count, shown
from tracelens.report import edit_excerpt, gain_words, terminal
from tracelens.report.edit_excerpt import EditExcerpt
from tracelens.report.first_screen import FirstScreen, LeverRow
from tracelens.report.formatting import DASH, clean, says
from tracelens.report.line_times import CostlyLine
from tracelens.report.step_strip import IDLE, StepStrip, StripLane
from tracelens.units import step_ms

TIME_WIDTH = 12
"""Columns of a time: as wide as "host blocked"."""
LEAST_SOURCE = 8
ROOMY = 100
"""Columns. A narrower screen is full: how sure ranges are, and what the other lines hold, stands elsewhere."""
SIGNS = {**dict.fromkeys(IDLE, "·"), "copy": "▒", "whole": "░"}
"""How parts of a step are drawn; kernels and collectives are `WORKS`."""
WORKS = "█"
LEAST_DRAWN = 2.0
"""Percent of the picture: what is narrower is no character of its own on a narrow screen."""
NAMES = (say("now"), say("then"))
LONE = "╶ "
"""Before the one line that is changed, among others: the bracket of several, of one."""


def blocks(screen: FirstScreen, next_command: str) -> Iterator[RenderableType]:
    """Verdict, lines, one step, levers, next command."""
    yield from head(screen)
    yield from annotated(screen.lines, screen.time_columns, screen.beside_lines, screen.other_lines)
    yield from pictured(screen.strip)
    rest = edit_excerpt.rest_of(screen.edit, next_command, screen.lines, with_undo=True)
    yield from edited(screen.edit, rest)
    if screen.levers:
        yield Text()
        yield _Levers(screen.levers, _time_of_levers(screen))
    else:
        yield Text()
    verb = next_command.split()[1]
    does = "" if verb == "apply" and rest else _what_it_does(verb)
    yield _Notes(gain_words.ranges(row.state for row in screen.levers if row.step != DASH), [*_notes(screen), does])
    if rest and verb == "apply":
        yield terminal.look_first(say("{command} --dry-run", command=next_command))
        yield terminal.next_command(next_command, apart=False)
    else:
        yield terminal.next_command(next_command)


def _time_of_levers(screen: FirstScreen) -> str:
    if screen.has_slow_steps:
        return say("ordinary step, ms")
    return say("step, ms") if screen.steps_found else say("recording, ms")


def head(screen: FirstScreen) -> Iterator[RenderableType]:
    """What was recorded, the headline, and what the recommended change comes to, else the verdict."""
    yield terminal.subject(screen.subject)
    yield from _answer(screen)
    for sentence in (*screen.rare, *screen.machine, screen.batch, screen.pace):
        if sentence:
            yield terminal.paragraph(sentence)


def _answer(screen: FirstScreen) -> Iterator[RenderableType]:
    if not screen.headline:
        yield terminal.verdict(screen.verdict, apart=False)
        return
    headline = _stopped(screen.headline)
    yield terminal.verdict(headline, apart=False)
    more = screen.instead or screen.verdict
    for text in (more if more != headline else "", screen.reason):
        if text:
            yield terminal.paragraph(text)


def _stopped(headline: str) -> str:
    return headline if headline.endswith(".") else say("{sentence}.", sentence=headline)


def closing(screen: FirstScreen) -> Iterator[RenderableType]:
    """What `profile` says at its end: the headline, the lines to change, what the change comes to."""
    yield terminal.verdict(_stopped(screen.headline) if screen.headline else screen.verdict)
    for line in screen.lines:
        if line.changed:
            yield Text(f"    {clean(str(line.place.path))}:{line.place.line}  {clean(line.text.strip())}", no_wrap=True)
    if screen.instead or screen.headline:
        yield terminal.paragraph(screen.instead or screen.verdict)


def annotated(
    lines: Sequence[CostlyLine],
    time_columns: tuple[str, str],
    beside: str = "",
    others: tuple[str, str] | None = None,
) -> Iterator[RenderableType]:
    """Lines of source with their two times, and what they give back together. `others`: the times of all the rest."""
    if lines:
        yield Text()
        yield _AnnotatedLines(lines, time_columns, others)
    if beside:
        yield terminal.paragraph(beside, "dim")


def pictured(strip: StepStrip | None) -> Iterator[RenderableType]:
    """The step of the GPU as totals, now and then, on one scale."""
    lanes = [(lane, step.step_ns) for step in strip.steps if (lane := step.gpu) is not None] if strip else []
    if strip is not None and lanes:
        yield Text()
        yield _Lanes(lanes, _legend(strip))


def _legend(strip: StepStrip) -> str:
    """'GPU in total: █ kernels, ▒ copies, · idle 9.6 → 3.2 ms': what the signs are, and come to."""
    parts = [say("{sign} kernels", sign=WORKS)]
    if any(
        one.kind == "copy" and one.width >= LEAST_DRAWN for step in strip.steps if step.gpu for one in step.gpu.segments
    ):
        parts.append(say("{sign} copies", sign=SIGNS["copy"]))
    parts.append(say("{sign} idle {idle} ms", sign=SIGNS["lost"], idle=strip.legend(*IDLE)))
    if strip.has_undivided:
        parts.append(say("{sign} parts unknown", sign=SIGNS["whole"]))
    said = joined(", ", [*parts, *([strip.recordings] if strip.recordings else [])])
    return say("GPU in total: {parts}", parts=said)


def edited(edit: EditExcerpt | None, rest: str) -> Iterator[RenderableType]:
    """The lines that go and come, each place with its line number, and where the rest is."""
    if edit is None:
        return
    yield Text()
    width = len(str(max(row.line for row in edit.rows)))
    margin = min(len(row.text) - len(row.text.lstrip()) for row in edit.rows)
    last = 0
    for row in edit.rows:
        mark, style = terminal.MARKS[row.kind]
        number = "" if row.kind == "add" and row.line <= last else str(row.line)
        last = max(last, row.line)
        yield _CutLine(f"{number:>{width}} {mark} {clean(row.text[margin:])}", style)
    if rest:
        yield terminal.paragraph(rest, "dim")


def _what_it_does(command: str) -> str:
    """Whether the next command touches a file is what one asks before typing it; empty where it only shows."""
    if command == "fix":
        return say("fix measures the change on a copy (10 min at most), shows it, and asks before it writes.")
    if command == "apply":
        return say("apply writes it into the script, revert takes it out.")
    if command == "try":
        return say(
            "try measures each on a copy of the script, then the best together (10 min at most); your files stay as "
            "they are."
        )
    return ""


def _notes(screen: FirstScreen) -> Iterator[str]:
    yield from (screen.measured, screen.about_patch, screen.missed)
    yield from _of_rows(screen.levers)
    more = []
    if screen.more_levers:
        more.append(say("all levers"))
    if screen.unjudged:
        more.append(say_count("{count} thing not judged", "{count} things not judged", screen.unjudged))
    if more or screen.long_form:
        yield say("With -v: {more}.", more=joined(", ", [*more, *screen.long_form]))


def _of_rows(rows: Sequence[LeverRow]) -> Iterator[str]:
    """What the rows leave open: which of them are no better than one another, and what nobody knows."""
    same = _same_ranks(rows)
    if same:
        yield say("{ranks} are about the same.", ranks=joined(", ", same))
    if first := gain_words.measured_first((row.state, row.speedup) for row in rows if row.rank.isdigit()):
        yield first
    if any(row.id == "event-sync" for row in rows[:1]):
        yield say("An event is a mark in the GPU's queue.")
    if any(row.scaled for row in rows):
        yield gain_words.SCALED
    if any(row.step == DASH for row in rows):
        ranked = any(row.rank.isdigit() for row in rows)
        alike = say("not tried: only a trial tells, so the order is no ranking.")
        yield say("not tried: only a trial tells.") if ranked else alike
    if star := gain_words.star(row.effect for row in rows):
        yield star


def _same_ranks(rows: Sequence[LeverRow]) -> list[str]:
    """'2–4' for rows that are about the same as the one before them."""
    groups: list[list[str]] = []
    for row in rows:
        if row.like_last and groups:
            groups[-1].append(row.rank)
        elif row.rank.isdigit():
            groups.append([row.rank])
    return [f"{group[0]}–{group[-1]}" for group in groups if len(group) > 1]


@dataclass(frozen=True)
class _CutLine:
    """A line that ends where the screen does."""

    text: str
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _row(_cut(self.text, options.max_width - terminal.INDENT), self.style)


@dataclass(frozen=True)
class _Notes:
    """What is said of the levers, one sentence behind the other."""

    ranges: str
    others: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        said = [text for text in (self.ranges if options.max_width >= ROOMY else "", *self.others) if text]
        if said:
            yield terminal.paragraph(joined(" ", said), "dim")


@dataclass(frozen=True)
class _Levers:
    """A table of levers; where there is room, with what to type for each."""

    rows: Sequence[LeverRow]
    time: str
    """What the times are of."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = [
            ("", [row.rank for row in self.rows]),
            (say("lever"), [gain_words.marked(row.lever, row.effect) for row in self.rows]),
            (say("lines"), [row.lines for row in self.rows]),
            (self.time, [row.step for row in self.rows]),
            (say("gain"), [row.gain for row in self.rows]),
            (say("evidence"), [row.evidence for row in self.rows]),
        ]
        shown = [(name, cells) for name, cells in columns if says(cells)]
        writes = any(row.command.split()[1:2] != ["try"] for row in self.rows if row.command)
        heading = say("to measure or write it") if writes else say("to measure it")
        commands = (heading, [row.command or say("by hand") for row in self.rows])
        if any(row.command for row in self.rows) and _width([*shown, commands]) <= options.max_width:
            shown.append(commands)
        numbers = frozenset(place for place, (name, _) in enumerate(shown) if name in ("", "gain"))
        yield terminal.table([name for name, _ in shown], zip(*(cells for _, cells in shown), strict=True), numbers)


@dataclass(frozen=True)
class _Lanes:
    """Two strips on one scale with their times behind them, and what the signs mean."""

    lanes: Sequence[tuple[StripLane, int]]
    legend: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        base_ns = self.lanes[0][1]
        times = [f"{step_ms(step_ns, base_ns)} ms" for _, step_ns in self.lanes]
        names = list(map(shown, NAMES[: len(self.lanes)]))
        widest = max(map(cell_len, names)) + terminal.GAP
        room = options.max_width - terminal.INDENT - widest - max(map(len, times)) - terminal.GAP
        for name, (lane, _), time in zip(names, self.lanes, times, strict=True):
            yield _row(f"{terminal.padded(name, widest)}{strip_of(lane, room):<{room + terminal.GAP}}{time}", "")
        for line in textwrap.wrap(shown(self.legend), options.max_width - terminal.INDENT - widest):
            yield _row(f"{'':<{widest}}{line}", "dim")


def _width(columns: Sequence[tuple[str, Sequence[str]]]) -> int:
    """Of a table with these columns, none of them broken."""
    return terminal.INDENT + sum(
        max(cell_len(shown(cell)) for cell in (name, *cells)) + terminal.GAP for name, cells in columns
    )


def strip_of(lane: StripLane, room: int) -> str:
    """The parts of a step as characters; kernels are seen however short they are."""
    out = ""
    for segment in lane.segments:
        end = max(round(room * (segment.x + segment.width) / 100), len(out) + (segment.kind == "gpu"))
        out += SIGNS.get(segment.kind, WORKS) * (end - len(out))
    return out


@dataclass(frozen=True)
class _AnnotatedLines:
    """Source lines with two times each, as a profiler's margin; lines that one change is about are bracketed."""

    lines: Sequence[CostlyLine]
    time_columns: tuple[str, str]
    others: tuple[str, str] | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(options.max_width - terminal.INDENT - 2 * (TIME_WIDTH + terminal.GAP), LEAST_SOURCE)
        paths = list(dict.fromkeys(line.place.path for line in self.lines))
        first, second = (terminal.flush_right(shown(name), TIME_WIDTH + terminal.GAP) for name in self.time_columns)
        width = max(len(str(line.place.line)) for line in self.lines)
        brackets = _brackets(self.lines)
        for number, path in enumerate(paths):
            title = _cut(shown(say("{path}, ms per step", path=clean(path))), room)
            head = f"{terminal.padded(title, room)}{first}{second}" if number == 0 else title
            yield _row(head, "dim")
            for line, bracket in zip(self.lines, brackets, strict=True):
                if line.place.path == path:
                    yield _row(self._line(line, bracket, width, room), "")
        if self.others is not None and options.max_width >= ROOMY:
            times = "".join(f"{time:>{TIME_WIDTH + terminal.GAP}}" for time in self.others)
            yield _row(f"{terminal.padded(_cut(shown(say('all other lines')), room), room)}{times}", "dim")

    def _line(self, line: CostlyLine, bracket: str, width: int, room: int) -> str:
        source = _cut(f"{bracket}{line.place.line:>{width}}  {clean(line.text)}", room)
        times = (f"{line.told(ns):>{TIME_WIDTH + terminal.GAP}}" for ns in (line.host_blocked_ns, line.gpu_idle_ns))
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
