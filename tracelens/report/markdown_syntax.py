"""Pieces of Markdown: text that stays text, tables, code, lists.

In: words, which are drawn here in the reader's language. Out: Markdown (GitHub's flavor). All text comes from traces,
paths and sources: it is escaped here, so that none of it becomes a heading, a link, a mention or a table cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracelens.messages import shown
from tracelens.report.formatting import clean, said_columns

SPECIAL = re.compile(r"[\\`*_\[\]<>|~#!$]")
"""What Markdown or HTML could act on in the middle of a line."""
TICK = {True: "x", False: " ", None: " "}


def plain(text: str) -> str:
    """Text of any origin as text: on one line, with Markdown, HTML and @mentions escaped."""
    one_line = " ".join(clean(line) for line in shown(text).splitlines())
    escaped = SPECIAL.sub(lambda match: f"\\{match[0]}", one_line.replace("&", "&amp;"))
    return escaped.replace("@", "&#64;")


def code(text: str) -> str:
    """A code span; the fence is longer than any run of backticks in it."""
    inside = " ".join(clean(line) for line in shown(text).splitlines()).replace("|", "\\|")
    fence = "`" * (_longest_run(inside) + 1)
    pad = " " if inside.startswith("`") or inside.endswith("`") else ""
    return f"{fence}{pad}{inside}{pad}{fence}"


def block(text: str, language: str = "") -> str:
    """A fenced block."""
    lines = "\n".join(clean(line) for line in text.splitlines())
    fence = "`" * max(3, _longest_run(lines) + 1)
    return f"{fence}{language}\n{lines}\n{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[int] = frozenset()) -> str:
    """A table; columns in `numbers` are set flush right, those without a word are left out. Cells are Markdown."""
    cells = list(rows)
    kept = said_columns(len(columns), cells)
    rule = ["--:" if place in numbers else "---" for place in range(len(columns))]
    lines = ([shown(row[place]) for place in kept] for row in (columns, rule, *cells))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def checklist(items: Iterable[tuple[bool | None, str]]) -> str:
    """Ticked where it was shown; an open box says why it is open in its own words."""
    return "\n".join(f"- [{TICK[done]}] {shown(text)}" for done, text in items)


def bullets(items: Iterable[str]) -> str:
    return "\n".join(f"- {shown(item)}" for item in items)


def document(blocks: Iterable[str]) -> str:
    """Blocks with an empty line between them; empty ones leave no trace."""
    return "\n\n".join(shown(block) for block in blocks if block) + "\n"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
