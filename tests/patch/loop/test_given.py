"""Objects that use another one that they were given when they were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import parsed
from tracelens.patch.loop import given

METER = """\
class Meter:
    def __init__(self, writer, name="loss"):
        self.out = writer
        self.name = name

    def show(self):
        self.out.write("text")
"""


@pytest.mark.parametrize(
    ("made", "pairs"),
    [
        ("meter = Meter(writer)", {("meter", "writer")}),
        ("meter = Meter(name=n, writer=w)", {("meter", "w")}),
        ("class T:\n    def f(self):\n        self.m = Meter(self.w)", {("self.m", "self.w")}),
        ("a, b = Meter(u), Meter(v)", {("a", "u"), ("b", "v")}),
        ("class Own(Meter): ...\nmeter = Own(writer)", {("meter", "writer")}),
        ("both = Pair(Meter(writer))", {("both", "writer")}),
    ],
)
def test_an_object_that_uses_what_it_was_given(made: str, pairs: set[tuple[str, str]], tmp_path: Path) -> None:
    assert given.pairs(parsed(tmp_path, f"{METER}\n{made}\n")) == pairs


@pytest.mark.parametrize(
    "made",
    ["meter = Meter(*all)", "meter = Meter(open('x'), n)", "meter = Other(writer)", "Meter(writer)", "m = Meter(n=w)"],
    ids=["starred", "no name", "unknown class", "not kept", "another parameter"],
)
def test_other_objects_are_no_pairs(made: str, tmp_path: Path) -> None:
    assert given.pairs(parsed(tmp_path, f"{METER}\n{made}\n")) == set()


def test_what_is_stored_and_never_used_is_no_pair(tmp_path: Path) -> None:
    unused = METER.replace("self.out.write", "self.name.write")
    assert given.pairs(parsed(tmp_path, f"{unused}\nmeter = Meter(writer, n)\n")) == {("meter", "n")}


def test_a_class_of_another_file_is_looked_into(tmp_path: Path) -> None:
    source = parsed(tmp_path, "from meters import Meter\nmeter = Meter(writer)\n", meters=METER)
    assert given.pairs(source) == {("meter", "writer")}
