"""What stands in the catalogue: every phrase of the modules that are done, marked so that extraction finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sources import MODULES, name_of
from tests.support.visible_strings import dynamic, unmarked

IN = ("findings/", "report/", "replay/", "schemes/", "levers/", "units.py", "step_owners.py", "remedies.py")
"""Modules whose phrases people read on the screens of analyze, recommend and report."""
OUT = {
    "findings/owners/operations.py": "a name that stands for a call, by which rules find it",
    "findings/program_language.py": "the beginning of a command, which is looked for in hints",
    "levers/chosen.py": "a wrong command line: errors are not begun",
    "levers/line_edit.py": "a wrong command line: errors are not begun",
    "levers/rules.py": "a mistake in a rule file, for who writes one",
    "replay/": "not begun: why a recording cannot be replayed (trace_builder.py)",
    "report/ascii_timeline.py": "a picture of characters in the implementation record",
    "report/comparability.py": "not begun: compare",
    "report/compare.py": "not begun: compare",
    "report/every_place.py": "not begun: patch",
    "report/fix_card.py": "not begun: fix",
    "report/gate.py": "errors about a baseline file: errors are not begun",
    "report/github.py": "annotations, which machines match",
    "report/html.py": "markup",
    "report/implementation_record.py": "not begun: the Markdown document of a scheme",
    "report/issues.py": "SARIF and annotations, which machines match",
    "report/loss_band.py": "not begun: try",
    "report/markdown.py": "not begun: Markdown",
    "report/next_commands.py": "compared with values of JSON",
    "report/card.py": "compared with a lane's name",
    "report/perfetto.py": "names of tracks in a file for another program",
    "report/verification_rows.py": "an outcome, which is looked up",
    "report/terminal.py": "the name of a style",
    "report/sarif.py": "SARIF is English",
    "schemes/measures.py": "a mistake in a rule file, for who writes one",
    "schemes/rules.py": "a mistake in a rule file, for who writes one",
    "schemes/weighing.py": "compared with a reason",
    "schemes/verdict.py": "compared with an id",
    "schemes/stages.py": "compared with an id",
}
"""Of these the ones that are not, or not whole, in the catalogue, each with the reason."""


def _out(name: str) -> bool:
    return any(name.startswith(prefix) for prefix in OUT)


DONE = [path for path in MODULES if name_of(path).startswith(IN) and not _out(name_of(path))]


@pytest.mark.parametrize("path", DONE, ids=name_of)
def test_every_phrase_is_marked(path: Path) -> None:
    assert [f"{line}: {text}" for line, text in unmarked(path)] == [], "put it into say(), see docs/translating.md"


def test_no_reason_is_left_over() -> None:
    names = [name_of(path) for path in MODULES if any(unmarked(path))]
    assert [prefix for prefix in OUT if not any(name.startswith(prefix) for name in names)] == []


def test_what_is_marked_is_a_literal() -> None:
    """But for the labels of Edit kinds, which are marked where they are defined; verify has a `joined` of its own."""
    found = [f"{name_of(path)}:{line}" for path in MODULES for line in dynamic(path)]
    assert [place for place in found if not place.startswith(("edit_kinds.py:", "verify/"))] == []
