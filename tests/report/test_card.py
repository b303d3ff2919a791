"""The picture for a pull request: self-contained, escaped, with the numbers of the first screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import report_cases as cases
from tests.support.places import SAMPLE
from tracelens.cli import card_picture, main
from tracelens.report import card

HOSTILE = '</text><script>window.pwn=1</script>" onload="x'
Capture = pytest.CaptureFixture[str]


def texts(svg: str) -> str:
    """All text of the picture; fails where it is no XML."""
    return " ".join(" ".join(one.itertext()) for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("text"))


def test_it_has_the_numbers_of_the_first_screen() -> None:
    said = texts(card.render(cases.tried()))
    assert "9.5" in said and "8.1" in said and "+17" in said and "train.py, lines 11–12" in said


def test_nothing_in_it_is_loaded_and_names_are_text() -> None:
    base = cases.with_names(HOSTILE, replace(cases.tried(), headline=HOSTILE))
    svg = card.render(base)
    assert HOSTILE in texts(svg).replace("\xa0", " ")
    tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "title", "desc", "defs", "pattern", "rect", "line", "style", "text", "tspan"}
    assert "href" not in svg and svg.count("http") == 1  # the name space


def test_a_recording_without_anything_to_show_is_a_picture_too() -> None:
    assert texts(card.render(cases.planned()))


@pytest.mark.slow
def test_the_command_writes_it_and_says_what_it_cannot(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "card.svg"
    assert main(["report", str(SAMPLE), "--card", str(out)]) == 0
    assert "25.4" in texts(out.read_text(encoding="utf-8"))
    assert main(["report", str(SAMPLE), "--card", str(tmp_path / "card.pdf")]) == 2
    assert "an .svg or a .png" in capsys.readouterr().err
    monkeypatch.setattr(card_picture.shutil, "which", lambda name: None)
    assert main(["report", str(SAMPLE), "--card", str(tmp_path / "card.png")]) == 2
    assert "no Chromium on PATH" in capsys.readouterr().err
