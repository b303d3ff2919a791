"""Blocks of text for a terminal: tables, bars, code frames, diffs.

In: words and numbers. Out: rich renderables, and with `draw` one string. Colors only repeat what the words say, so
the same text reads without them; control characters from traces and sources never reach the terminal.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracelens.report.diff import ChangedFile
from tracelens.report.excerpt import Excerpt
from tracelens.report.words import clean

BAR_WIDTH = 28
"""Characters of the longest bar: leaves room for words and numbers on an 80-column terminal."""


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw: columns available, and whether escape codes may be used."""

    width: int = 100
    color: bool = False


def draw(blocks: Iterable[RenderableType], look: Look) -> str:
    """The blocks as one string, trailing blanks removed, with escape codes only where the look allows them."""
    console = Console(
        file=io.StringIO(),
        width=look.width,
        force_terminal=look.color,
        color_system="256" if look.color else None,
        no_color=not look.color,
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
    return Text.assemble("\n", (text, "bold"))


def paragraph(text: str, style: str = "") -> RenderableType:
    return Padding(Text(_clean_lines(text), style=style), (0, 0, 0, 2))


def verdict(text: str) -> RenderableType:
    return Padding(Text(_clean_lines(text), style="bold"), (1, 2, 0, 2))


def _clean_lines(text: str) -> str:
    """A sentence may quote several lines of a program's last words."""
    return "\n".join(clean(line) for line in text.split("\n"))


def next_command(command: str) -> RenderableType:
    return Text.assemble("\nnext: ", (clean(command), "bold cyan"), overflow="ignore", no_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], numbers: frozenset[int]) -> RenderableType:
    """A table without lines; columns in `numbers` are set flush right and never broken."""
    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        right = index in numbers
        out.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in rows:
        out.add_row(*(cell if isinstance(cell, Text) else Text(clean(cell)) for cell in row))
    return Padding(out, (0, 0, 0, 2))


def bars(rows: Iterable[tuple[str, float, str, str]]) -> RenderableType:
    """(label, share 0–1, value, share as text) as one bar a row."""
    out = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for justify in ("left", "left", "right", "right"):
        out.add_column(justify=justify, no_wrap=True)
    for label, share, value, text in rows:
        length = round(BAR_WIDTH * min(max(share, 0), 1))
        style = "yellow" if label.startswith("Idle") else "blue"
        out.add_row(label, Text("█" * length or "▏", style=style), value, text)
    return Padding(out, (0, 0, 0, 2))


def code_frame(title: str, place: str, excerpt: Excerpt | None, note: str) -> RenderableType:
    """`title`, an arrow to the place, and where the source is at hand its lines with a caret under the call."""
    out = Text(no_wrap=True, overflow="ignore")
    out.append(clean(title) + "\n", style="bold")
    out.append("  --> ", style="cyan").append(clean(place))
    if excerpt is None:
        return out.append("\n      ").append(clean(note), style="dim")
    gutter = len(str(excerpt.lines[-1][0]))
    out.append(f"\n {' ' * gutter} |", style="cyan")
    for number, line in excerpt.lines:
        out.append(f"\n {number:>{gutter}} | ", style="cyan").append(clean(line))
        if number == excerpt.number:
            caret = " " * excerpt.start + "^" * max(1, excerpt.end - excerpt.start)
            out.append(f"\n {' ' * gutter} | ", style="cyan").append(f"{caret} {clean(note)}", style="yellow")
    return out


def diff(files: Sequence[ChangedFile]) -> RenderableType:
    """A diff as rows; `+` and `-` carry the meaning, color repeats it. A file that is all new is only announced."""
    out = Text()
    for file in files:
        if file.created:
            out.append(f"new file {clean(file.path)}: {len(file.rows) - 1} lines\n", style="bold")
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
