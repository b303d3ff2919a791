"""Values in a text: which of them are asked for a number, and which show more of a tensor than that."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.parsed_scripts import call_of, expression, parsed
from tracelens.patch.code import formats
from tracelens.patch.code.formats import Templates

PYTHONS_OWN = Templates(frozenset(), builtin=True)


def asked(text: str, known: Templates = PYTHONS_OWN) -> list[tuple[str, str]]:
    """The values of one formatting as (source, what it asks of them)."""
    values = formats.values(expression(text), known)
    return [(cst.Module([]).code_for_node(value), what) for value, what in values]


# ------------------------------------------------------------------------------------------------------ percent


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ('"%d of %s" % (n, name)', [("n", "d"), ("name", "s")]),
        ('"%5.2f %%" % share', [("share", "f")]),
        ('"%-8s|%+.3e" % (a, b)', [("a", "s"), ("b", "e")]),
    ],
)
def test_each_value_has_the_letter_of_its_place(text: str, letters: list[tuple[str, str]]) -> None:
    node = expression(text)
    assert isinstance(node, cst.BinaryOperation)
    assert [(cst.Module([]).code_for_node(v), letter) for v, letter in formats.percent(node)] == letters


@pytest.mark.parametrize(
    "text",
    ['"%(loss)f" % values', '"%*d" % (width, n)', '"%d %d" % pair', '"%d" % (*many,)', "a % b", '"%d" + n'],
    ids=["by name", "width from a value", "one for two", "starred", "numbers", "another operator"],
)
def test_values_that_cannot_be_told_apart_are_none(text: str) -> None:
    node = expression(text)
    assert isinstance(node, cst.BinaryOperation)
    assert formats.percent(node) == ()


# ------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('"%.3f %s" % (loss, name)', [("loss", "number")]),
        ('"{:.3f} {}".format(loss, step)', [("loss", "formatted"), ("step", "formatted")]),
        ('format(loss, ".3f")', [("loss", "formatted")]),
        ('"{!r}".format(loss)', []),
        ('"{0.shape}".format(loss)', []),
        ('"{}".format(*losses)', []),
        ("format(loss)", []),
        ('print(loss, ".3f")', []),
    ],
)
def test_a_formatting_asks_numbers_of_these_values(text: str, values: list[tuple[str, str]]) -> None:
    assert asked(text) == values


def test_a_part_of_an_f_string_asks_unless_it_is_converted() -> None:
    text = expression('f"{loss:.3f} {loss!r}"')
    assert isinstance(text, cst.FormattedString)
    found = [list(formats.values(part, PYTHONS_OWN)) for part in text.parts]
    assert [len(values) for values in found] == [1, 0, 0]


def test_a_format_of_the_files_own_is_not_pythons() -> None:
    assert asked('format(loss, ".3f")', Templates(frozenset(), builtin=False)) == []


# ---------------------------------------------------------------------------------------------------- templates


def test_a_name_stands_for_a_constant_text_only_where_it_is_nothing_else(tmp_path: Path) -> None:
    source = parsed(
        tmp_path,
        """
        LINE = "{:.3f}"
        WHOLE = "{!r}"
        twice = "{}"
        twice = other
        def show(given):
            print(LINE.format(1.0))
        given = "{}"
        """,
    )
    known = formats.templates(source)
    assert known == Templates(frozenset({"LINE"}), builtin=True)
    assert formats.formats(call_of(source, "format"), known)


@pytest.mark.parametrize("text", ["def format(a, b): ...", "format = str", "from fast import format"])
def test_a_file_that_binds_format_has_one_of_its_own(text: str, tmp_path: Path) -> None:
    assert not formats.templates(parsed(tmp_path, f"{text}\n")).builtin


# ------------------------------------------------------------------------------------------------------ reduces


@pytest.mark.parametrize(
    "text", ["x.mean()", "100.0 * hits.sum() / n", "-x.max()", "x.norm().float()", "x.any().int()"]
)
def test_a_number_is_computed_of_all_elements(text: str) -> None:
    assert formats.reduces(expression(text))


@pytest.mark.parametrize("text", ["x", "x.relu()", "sum(x)", "x.float()", "n + 1", "x.mean"])
def test_other_values_reduce_nothing(text: str) -> None:
    assert not formats.reduces(expression(text))


# ------------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("text", "is_text"),
    [
        ('"%d of %d" % (n, total)', True),
        ('"epoch {}".format(n) + " lr=%.2e" % (rate,) + f"{n}"', True),
        ('"lr=%.2e" % rate', False),  # what is a text with an `__rmod__` may be anything
        ('", ".join(names).ljust(9)', True),
        ('"a" "b"', True),
        ('"a" + name', False),  # what has an `__radd__` of its own may be anything
        ("n % total", False),
        ("template.format(n)", False),
        ('"a b".split()', False),
        ('b"%d" % n', False),
    ],
)
def test_what_is_certainly_a_text(text: str, is_text: bool) -> None:
    assert formats.makes_text(expression(text)) is is_text
