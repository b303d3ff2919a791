"""Reading a rule file key by key: values with their types, and every mistake as a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tracelens.rule_files.fields import Fields, nearest, shown

COLORS = ("red", "green")


def read(value: Any, ask: Callable[[Fields], Any]) -> tuple[Any, list[str]]:
    """What is asked of a mapping, and the mistakes that were noted."""
    mistakes: list[str] = []
    return ask(Fields(value, "rule.yaml", mistakes)), mistakes


# --------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "ask", "answer"),
    [
        ({"k": " a text "}, lambda f: f.text("k"), "a text"),
        ({}, lambda f: f.text("k", "else"), "else"),
        ({"k": True}, lambda f: f.plain("k"), True),
        ({"k": 3}, lambda f: f.number("k", 0, 10), 3.0),
        ({}, lambda f: f.number("k", 0, 10, 7), 7.0),
        ({"k": "red"}, lambda f: f.choice("k", COLORS), "red"),
        ({"k": ["a", " b "]}, lambda f: f.texts("k"), ("a", "b")),
        ({}, lambda f: f.texts("k", empty=True), ()),
        ({"k": ["green", "red"]}, lambda f: f.choices("k", COLORS), ("green", "red")),
        ({"k": [[0, 0], [4, 6.5]]}, lambda f: f.pairs("k"), ((0.0, 0.0), (4.0, 6.5))),
        ({"k": [{"a": "x"}, {"a": "y"}]}, lambda f: f.each("k", lambda one: one.text("a")), ("x", "y")),
        ({"k": {"a": "x"}}, lambda f: f.inner("k").text("a"), "x"),
    ],
)
def test_a_value_is_read_with_its_type(value: Any, ask: Callable[[Fields], Any], answer: Any) -> None:
    assert read(value, ask) == (answer, [])


# ------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("value", "ask", "mistake"),
    [
        ({}, lambda f: f.text("k"), "k: is missing, expected a text"),
        ({"k": "  "}, lambda f: f.text("k"), "k: expected a text, found '  '"),
        ({"k": 3.5}, lambda f: f.plain("k"), "k: expected a text, a whole number, true or false, found 3.5"),
        ({"k": 11}, lambda f: f.number("k", 0, 10), "k: expected a number from 0 to 10, found 11"),
        ({"k": True}, lambda f: f.number("k", 0, 10), "k: expected a number from 0 to 10, found True"),
        ({"k": float("nan")}, lambda f: f.number("k", 0, 10), "k: expected a number from 0 to 10, found nan"),
        (
            {"k": "rad"},
            lambda f: f.choice("k", COLORS),
            "k: expected one of red, green, found 'rad' (did you mean 'red'?)",
        ),
        ({"k": ["blue"]}, lambda f: f.choices("k", COLORS), "k: expected some of red, green, found 'blue'"),
        ({"k": []}, lambda f: f.texts("k"), "k: expected a list of texts with at least one entry, found []"),
        ({"k": ["a", 2]}, lambda f: f.texts("k"), "k[1]: expected a text, found 2"),
        ({"k": [[0, 0]]}, lambda f: f.pairs("k"), "k: expected at least two pairs of numbers [x, y]"),
        ({"k": [[1, 0], [1, 2]]}, lambda f: f.pairs("k"), "k: expected x to grow from pair to pair"),
        ({"k": [[0, 0], [1, 11]]}, lambda f: f.pairs("k"), "k: expected scores y from 0 to 10"),
        ({"k": [{"a": 1}]}, lambda f: f.each("k", lambda one: one.text("a")), "k[0].a: expected a text, found 1"),
        ({"k": {"a": 1}}, lambda f: f.inner("k").text("a"), "k.a: expected a text, found 1"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_key(value: Any, ask: Callable[[Fields], Any], mistake: str) -> None:
    _, mistakes = read(value, ask)
    assert mistakes == [f"rule.yaml: {mistake}"]


def test_a_file_that_is_no_mapping_is_told_once() -> None:
    _, mistakes = read(["a"], lambda f: (f.text("k"), f.number("n", 0, 1)))
    assert mistakes == ["rule.yaml: expected keys with values, found ['a']"]


def test_a_key_that_nobody_asked_for_is_told_with_the_nearest_that_is_known() -> None:
    def ask(fields: Fields) -> None:
        fields.text("title")
        fields.ignore("note")
        fields.done()

    _, mistakes = read({"title": "x", "note": 1, "titel": "y", "zzz": 1}, ask)
    assert mistakes == [
        "rule.yaml: titel: is not known here (did you mean 'title'?)",
        "rule.yaml: zzz: is not known here: expected note, title",
    ]


def test_an_unknown_key_of_an_entry_is_told_with_its_place() -> None:
    _, mistakes = read({"k": [{"a": "x", "b": 1}]}, lambda f: f.each("k", lambda one: one.text("a")))
    assert mistakes == ["rule.yaml: k[0].b: is not known here: expected a"]


def test_a_long_value_is_quoted_short() -> None:
    assert shown("x" * 100) == "'" + "x" * 36 + "..."
    assert nearest("zzz", COLORS) == ""
