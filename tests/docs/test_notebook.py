"""The pages of docs/notebook: every example runs on a sample trace, in order, and prints what the page shows.

python tests/docs/test_notebook.py      in the project's folder: write what they print now into the pages
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.oracle import IMPORT_NOISE
from tests.support.places import ROOT

PAGES = sorted((ROOT / "docs" / "notebook").glob("*.md"))
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytestmark = IMPORT_NOISE  # of HTA, on its page


def test_there_is_a_page_for_each_table() -> None:
    assert {page.stem for page in PAGES} >= {"load", "steps", "syncs", "copies", "idle_gaps", "streams", "hta"}


def printed_by(page: Path) -> list[tuple[str, str]]:
    """What each example of a page prints, and what the page says that it prints; to be run in the project's folder."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert [language for language, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    names: dict[str, Any] = {}
    found = []
    for (_, code), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        lines = [line.rstrip() for line in printed.getvalue().strip("\n").splitlines()]
        found.append(("\n".join(lines) + "\n", expected))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_print_what_it_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for printed, expected in printed_by(page):
        assert printed == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_column_has_its_line(page: Path) -> None:
    """The tables of a page name all columns of the DataFrame that it is about."""
    import tracelens

    sample = next((ROOT / "sample_traces" / "sync_every_batch" / "run" / "rank0").glob("*.pt.trace.json.gz"))
    trace = tracelens.load(sample)
    table = trace.frame if page.stem == "load" else getattr(tracelens.timeline(trace), page.stem, lambda: None)()
    if table is None:
        pytest.skip("this page is not about a table of the Timeline")
    documented = set(re.findall(r"`(\w+)`", page.read_text(encoding="utf-8")))
    assert set(table.columns) <= documented
    assert all(column.endswith("_ns") for column in table.columns if "start" in column or "end" in column)


def refresh() -> None:
    """Put what the examples print into the pages."""
    for page in PAGES:
        outputs = iter([printed for printed, _ in printed_by(page)])
        text = page.read_text(encoding="utf-8")
        fresh = BLOCK.sub(lambda block: block[0] if block[1] == "python" else f"```text\n{next(outputs)}```", text)  # noqa: B023
        page.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    refresh()
