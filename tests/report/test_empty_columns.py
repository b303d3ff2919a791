"""A column of which no row says anything is not there: in a terminal, in Markdown, on the page, folded or not."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from tests.support.recordings import RECORDED_ELSEWHERE, RUNS, plan_of
from tracelens.report import html, markdown_syntax, terminal
from tracelens.report.sections import Table
from tracelens.report.terminal import TerminalStyle

COLUMNS = ("lever", "memory", "note", "gain")
ROWS = (("a", "–", "", "+3 %"), ("b", "–", "", "–"))


def test_in_a_terminal() -> None:
    said = terminal.draw([terminal.table(COLUMNS, ROWS, frozenset({1, 3}))], TerminalStyle(80))
    assert "lever" in said and "gain" in said and "memory" not in said and "note" not in said
    assert [line.split() for line in said.splitlines() if line.strip()][1:] == [["a", "+3", "%"], ["b", "–"]]


def test_in_markdown() -> None:
    said = markdown_syntax.table(COLUMNS, ROWS, frozenset({1, 3}))
    assert said.splitlines() == ["| lever | gain |", "| --- | --: |", "| a | +3 % |", "| b | – |"]


def test_in_a_section() -> None:
    table = Table(COLUMNS, ROWS, frozenset({1, 3}))
    assert (table.columns, table.rows, table.numbers) == (
        ("lever", "gain"),
        (("a", "+3 %"), ("b", "–")),
        frozenset({1}),
    )


def test_a_table_without_rows_keeps_its_heading() -> None:
    assert Table(COLUMNS, ()).columns == COLUMNS


class _Tables(HTMLParser):
    """Per table its rows, each a list of the cells' text; a picture in a cell says something."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.within = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            span = int(dict(attrs).get("colspan") or 1)
            self.tables[-1][-1] += ["…"] * (span - 1) + [""]
            self.within = True
        elif self.within and tag in ("rect", "line", "input", "button"):
            self.tables[-1][-1][-1] += "picture"

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.within = False

    def handle_data(self, data: str) -> None:
        if self.within:
            self.tables[-1][-1][-1] += data.strip()


def empty_columns(page: str) -> Iterator[str]:
    """'table 3: memory' per column with a heading and without a word below it."""
    parser = _Tables()
    parser.feed(page)
    for number, (heading, *rows) in enumerate(parser.tables):
        for place, name in enumerate(heading):
            cells = [row[place] for row in rows if len(row) == len(heading)]
            if cells and all(cell in ("", "–") for cell in cells):
                yield f"table {number}: {name or place}"


def test_an_empty_column_of_a_page_is_found() -> None:
    page = "<table><tr><th>a<th>b</tr><tr><td>1</td><td>–</td></tr><tr><td>2</td><td></td></tr></table>"
    assert list(empty_columns(page)) == ["table 0: b"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RUNS, *RECORDED_ELSEWHERE])
def test_on_the_page(name: str) -> None:
    assert list(empty_columns(html.render(plan_of(name)))) == []
