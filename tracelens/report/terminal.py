"""Blocks of text for a terminal: tables, bars, code frames, diffs.

In: words and numbers. Out: rich renderables, and with `draw` one string. Colors only repeat what the words say, so
the same text reads without them; control characters from traces and sources never reach the terminal.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracelens.messages import say, say_count, shown, value_in
from tracelens.report import wrapping
from tracelens.report.diff import ChangedFile
from tracelens.report.formatting import clean, said_columns
from tracelens.report.source_excerpt import Excerpt

INDENT = 2
GAP = 2
READABLE = 16
"""A column of words that is narrower than this breaks inside of words."""
BAR_WIDTH = 28
"""Characters of the longest bar: leaves room for words and numbers on an 80-column terminal."""


@dataclass(frozen=True, slots=True)
class TerminalStyle:
    """How to draw: columns available, whether escape codes may be used, whether every row is wanted."""

    width: int = 100
    color: bool = False
    everything: bool = False


def draw(blocks: Iterable[RenderableType], style: TerminalStyle) -> str:
    """The blocks as one string, trailing blanks removed, with escape codes only where the look allows them."""
    console = Console(
        file=io.StringIO(),
        width=style.width,
        force_terminal=style.color,
        color_system="256" if style.color else None,
        no_color=not style.color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    for block in blocks:
        # rich joins Text objects before it prints them and forgets that they must not be wrapped
        bare = isinstance(block, Text)
        console.print(block, crop=False, no_wrap=bare, overflow="ignore" if bare else None)
    written = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO of three lines above
    return "\n".join(line.rstrip() for line in written.splitlines()) + "\n"


def heading(text: str) -> RenderableType:
    return Text.assemble("\n", (shown(text), "bold"))


def paragraph(text: str, style: str = "") -> RenderableType:
    return _Sentence(text, style, INDENT)


def subject(text: str) -> RenderableType:
    """What an answer is about, at the margin; wrapped where the terminal is narrow."""
    return _Sentence(text, "dim", 0)


def verdict(text: str, *, apart: bool = True) -> RenderableType:
    sentence = _Sentence(text, "bold", INDENT)
    return Group(Text(), sentence) if apart else sentence


@dataclass(frozen=True)
class _Sentence:
    """Wrapped where the terminal ends; a command that it ends with is whole, to be copied."""

    text: str
    style: str
    indent: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        command = clean(value_in(self.text, "command"))
        room = options.max_width - self.indent
        for line in wrapping.with_command(_clean_lines(self.text), command, room):
            yield Text(" " * self.indent + line, style=self.style, no_wrap=True, overflow="ignore")


def _clean_lines(text: str) -> str:
    """A sentence may quote several lines of a program's last words."""
    return "\n".join(clean(line) for line in shown(text).split("\n"))


def next_command(command: str, *, apart: bool = True) -> RenderableType:
    return _command(say("next:"), command, apart)


def look_first(command: str) -> RenderableType:
    """What shows all of what the next command does."""
    return _command(say("look:"), command, True)


def _command(word: str, command: str, apart: bool) -> RenderableType:
    gap = "\n" if apart else ""
    return Text.assemble(f"{gap}{shown(word)} ", (clean(command), "bold cyan"), overflow="ignore", no_wrap=True)


def padded(text: str, width: int) -> str:
    """At least as wide as told, on a terminal that gives a Chinese character two columns."""
    return text + " " * (width - cell_len(text))


def flush_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], numbers: frozenset[int]) -> RenderableType:
    """A table without lines; columns in `numbers` are set flush right and never broken. Where the terminal is too
    narrow for that, each row becomes a small list. A column of which no row says anything is not there."""
    cells = [tuple(cell if isinstance(cell, Text) else Text(clean(shown(cell))) for cell in row) for row in rows]
    kept = said_columns(len(columns), cells)
    names = tuple(shown(columns[place]) for place in kept)
    flush_right = frozenset(new for new, place in enumerate(kept) if place in numbers)
    return _Table(names, [tuple(row[place] for place in kept) for row in cells], flush_right)


@dataclass(frozen=True)
class _Table:
    """Decides how to be drawn when it knows how wide the terminal is."""

    columns: tuple[str, ...]
    rows: list[tuple[Text, ...]]
    numbers: frozenset[int]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._listed() if self._least() > options.max_width else _grid(self.columns, self.rows, self.numbers)

    def _least(self) -> int:
        """Columns that it takes to be readable."""
        total = INDENT - GAP
        for index, name in enumerate(self.columns):
            longest = max([cell_len(name), *(row[index].cell_len for row in self.rows)])
            total += (longest if index in self.numbers else min(longest, READABLE)) + GAP
        return total

    def _listed(self) -> RenderableType:
        lines = []
        for row in self.rows:
            filled = [(name, cell) for name, cell in zip(self.columns, row, strict=True) if cell.plain.strip()]
            lines += [
                Padding(
                    Text.assemble((f"{name}: " if name else "", "dim"), cell), (0, 0, 0, INDENT * (1 + (index > 0)))
                )
                for index, (name, cell) in enumerate(filled)
            ]
        return Group(*lines)


def _grid(columns: Sequence[str], rows: Iterable[Sequence[Text]], numbers: frozenset[int]) -> RenderableType:
    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        right = index in numbers
        out.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        out.add_row(*row)
    return Padding(out, (0, 0, 0, INDENT))


def bars(rows: Iterable[tuple[str, float, str, str]]) -> RenderableType:
    """(label, share 0–1, value, share as text) as one bar a row."""
    return _Bars(tuple(rows))


@dataclass(frozen=True)
class _Bars:
    """The bars give way where the terminal is narrow: the numbers say the same."""

    rows: tuple[tuple[str, float, str, str], ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        others = sum(
            max(cell_len(shown(cell)) for cell in column)
            for column in zip(*((a, c, d) for a, _, c, d in self.rows), strict=True)
        )
        widest = min(BAR_WIDTH, options.max_width - INDENT - others - 3 * GAP)
        out = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=False)
        for justify in ("left", *(["left"] if widest > 0 else []), "right", "right"):
            out.add_column(justify=justify, no_wrap=True)  # type: ignore[arg-type]
        for label, share, value, text in self.rows:
            length = round(max(widest, 0) * min(max(share, 0), 1))
            bar = Text("█" * length or "▏", style="yellow" if label.startswith("Idle") else "blue")
            out.add_row(shown(label), *([bar] if widest > 0 else []), shown(value), shown(text))
        yield Padding(out, (0, 0, 0, INDENT))


def code_frame(title: str, place: str, excerpt: Excerpt | None, note: str, help_text: str = "") -> RenderableType:
    """`title`, an arrow to the place, its lines with a caret under the call where the source is at hand, what to do."""
    return _Frame(title, place, excerpt, note, help_text)


@dataclass(frozen=True)
class _Frame:
    """Cuts long lines of source where the terminal ends, or the caret would point anywhere."""

    title: str
    place: str
    excerpt: Excerpt | None
    note: str
    help_text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(clean(shown(self.title)), style="bold")
        out = Text("  --> ", style="cyan").append(clean(shown(self.place)), style="default")
        if self.excerpt is None:
            yield out.append("\n      ").append(clean(shown(self.note)), style="dim")
            gutter = 1
        else:
            gutter = len(str(self.excerpt.lines[-1][0]))
            yield out.append(f"\n {' ' * gutter} |", style="cyan")
            yield from self._lines(self.excerpt, gutter, options.max_width)
        if self.help_text:
            start = " " * (gutter + INDENT + GAP)
            lines = textwrap.wrap(
                clean(shown(say("help: {text}", text=self.help_text))), max(options.max_width - len(start), 20)
            )
            yield Text(f" {' ' * gutter} = ", style="cyan").append(f"\n{start}".join(lines), style="default")

    def _lines(self, excerpt: Excerpt, gutter: int, width: int) -> Iterator[Text]:
        room = max(width - gutter - INDENT - GAP, 10)
        for number, line in excerpt.lines:
            text = clean(line)
            cut = text if len(text) <= room else f"{text[: room - 1]}…"
            out = Text(f" {number:>{gutter}} | ", style="cyan").append(cut, style="default")
            if number == excerpt.number:
                start = min(excerpt.start, room - 1)
                caret = " " * start + "^" * max(1, min(excerpt.end, room) - start)
                out.append(f"\n {' ' * gutter} | ", style="cyan").append(caret, style="yellow")
                note = clean(shown(self.note))
                beside = len(caret) + 1 + cell_len(note) <= room
                out.append(f" {note}" if beside else "", style="yellow")
                if not beside:
                    out.append(f"\n {' ' * gutter} | ", style="cyan").append(note, style="yellow")
            out.no_wrap, out.overflow = True, "ignore"
            yield out


def diff(files: Sequence[ChangedFile]) -> RenderableType:
    """A diff as rows; `+` and `-` carry the meaning, color repeats it. A file that is all new is only announced."""
    out = Text()
    for file in files:
        if file.created:
            created = say_count(
                "new file {path}: {count} line",
                "new file {path}: {count} lines",
                len(file.rows) - 1,
                path=clean(file.path),
            )
            out.append(f"{shown(created)}\n", style="bold")
            continue
        out.append(f"--- {clean(file.path)}\n+++ {clean(file.path)}\n", style="bold")
        for row in file.rows:
            mark, style = MARKS[row.kind]
            out.append(f"{mark}{clean(row.text)}\n", style=style)
    out.rstrip()
    return out


MARKS = {"hunk": ("", "cyan"), "same": (" ", ""), "add": ("+", "green"), "del": ("-", "red")}


def listing(code: str) -> RenderableType:
    """Source as it is, indented."""
    lines = "\n".join("    " + clean(line) for line in code.splitlines())
    return Text(lines, no_wrap=True, overflow="ignore")
