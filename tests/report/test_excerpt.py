"""Lines of source in a report: the call is marked, and what is no file has no source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import report_cases as cases
from tracelens.model import Location, Owners
from tracelens.report import source_excerpt
from tracelens.run import sources

NOBODY = Owners(0, ())

# ----------------------------------------------------------------------------------------------------- excerpt


def test_an_excerpt_marks_the_call_up_to_its_closing_bracket() -> None:
    text = "a = 1\nb = f(loss.item(), g(2))\n"
    found = source_excerpt.around({"t.py": text}, Location("t.py", 2), "Tensor.item")
    assert found is not None
    assert "b = f(loss.item(), g(2))"[found.start : found.end] == "loss.item()"


@pytest.mark.parametrize("location", [None, Location("t.py", None), Location("t.py", 9), Location("u.py", 1)])
def test_no_excerpt_for_a_line_that_is_not_there(location: Location | None) -> None:
    assert source_excerpt.around({"t.py": "a = 1\n"}, location, "item") is None


def test_without_the_name_the_statement_is_marked_without_its_comment() -> None:
    found = source_excerpt.around({"t.py": "    x = y.z  # why\n"}, Location("t.py", 1), "Tensor.cpu")
    assert found is not None and "    x = y.z  # why"[found.start : found.end] == "x = y.z"


def test_locations_that_cannot_be_files_have_no_source(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(cases.SOURCE)
    code = sources.training_script(None, script)
    stall = cases.diagnosis().stalls[0]
    places = ("x" * 300, "nul\0.py", "/proc/self/mem", "train.py")
    stalls = [replace(stall, location=Location(place, 3)) for place in places]
    assert sources.located_texts(stalls, NOBODY, None, code, "all")["train.py"] == cases.SOURCE
    assert set(sources.located_texts(stalls, NOBODY, None, code, "project")) == {"train.py"}
