"""The first screen of the page shows the edit in its place: the same lines out and in as the terminal."""

from __future__ import annotations

import html as markup
import re

import pytest

from tests.support import report_cases as cases
from tests.support.sample_plans import sample_plan
from tracelens.model import Location
from tracelens.report import annotated_source, html, text
from tracelens.report.edit_excerpt import EditExcerpt, EditRow
from tracelens.report.line_times import CostlyLine
from tracelens.report.terminal import TerminalStyle

SOURCE = "for x in y:\n    if ready:\n        wait()  # each step\n    total += x.item()\n"


def rows(edit: EditExcerpt, *numbers: int) -> list[tuple[str, int | None, str]]:
    lines = tuple(
        CostlyLine(Location("train.py", number, "main"), SOURCE.splitlines()[number - 1], 1_000_000, None)
        for number in numbers
    )
    diagnosis = cases.recommended(sources={"train.py": SOURCE})
    (file,) = annotated_source.frame(diagnosis, lines, edit)
    return [(row.kind, row.number, row.text) for row in file.rows]


def edit_of(*edited: EditRow) -> EditExcerpt:
    return EditExcerpt("train.py", edited, len(edited), ())


def test_the_added_line_stands_behind_the_one_that_goes_with_its_indentation() -> None:
    edit = edit_of(EditRow("del", 3, "        wait()  # each step"), EditRow("add", 3, "        mark()"))
    assert rows(edit, 1, 3, 4) == [
        ("same", 1, "for x in y:"),
        ("gap", None, ""),
        ("del", 3, "        wait()  # each step"),
        ("add", None, "        mark()"),
        ("same", 4, "    total += x.item()"),
    ]


def test_a_line_that_takes_no_time_is_shown_where_it_goes() -> None:
    edit = edit_of(EditRow("del", 4, "    total += x.item()"), EditRow("add", 4, "    later(x)"))
    assert rows(edit, 3) == [
        ("same", 3, "    wait()  # each step"),
        ("del", 4, "total += x.item()"),
        ("add", None, "later(x)"),
    ]


def test_a_line_that_only_comes_has_none_before_it() -> None:
    assert rows(edit_of(EditRow("add", 1, "import fast")), 1) == [
        ("add", None, "import fast"),
        ("same", 1, "for x in y:"),
    ]


def test_a_line_that_comes_far_from_the_others_stands_behind_the_one_before_it() -> None:
    assert rows(edit_of(EditRow("add", 2, "    fast()")), 4) == [
        ("same", 1, "for x in y:"),
        ("add", None, "    fast()"),
        ("gap", None, ""),
        ("same", 4, "    total += x.item()"),
    ]


def test_of_two_lines_that_go_together_what_comes_stands_behind_both() -> None:
    """A name that they need is made before the loop."""
    edit = edit_of(
        EditRow("add", 1, "ahead = later()"),
        EditRow("del", 3, "        wait()  # each step"),
        EditRow("del", 4, "    total += x.item()"),
        EditRow("add", 3, "        ahead.record()"),
        EditRow("add", 3, "    ahead.defer(x)"),
    )
    assert [row[:2] for row in rows(edit, 1, 3, 4)] == [
        ("add", None),
        ("same", 1),
        ("gap", None),
        ("del", 3),
        ("del", 4),
        ("add", None),
        ("add", None),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["sync_every_batch", "pageable_copies"])
def test_page_and_terminal_show_the_same_edit(case: str) -> None:
    diagnosis = sample_plan(case)
    page = html.render(diagnosis)
    answer = page[page.index('<section id="answer"') :].partition("</section>")[0]
    on_page = [markup.unescape(found) for found in re.findall(r"<(?:del|ins)>(.*?)</(?:del|ins)>", answer)]
    screen = text.recommendation(diagnosis, TerminalStyle(120))
    in_terminal = re.findall(r"^ +\d* [-+] (.+)$", screen, re.MULTILINE)
    assert [line.strip() for line in on_page] == [line.strip() for line in in_terminal]
    assert len(on_page) == {"sync_every_batch": 6}.get(case, 5)
