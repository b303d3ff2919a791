"""Damaged JSON: each known kind of damage is mended, and what cannot be mended is counted."""

from __future__ import annotations

import re

import pytest

from tracelens.trace import repair
from tracelens.trace.load_notes import LoadNotes

START = re.compile(rb'\}\s*,\s*(?=\{\s*"ph")')
WHOLE = '{"ph": "X", "name": "gemm", "ts": 1}'


def walked(text: str) -> repair.Walked:
    return repair.walk(text.encode(), START)


# ---------------------------------------------------------------------------------------------------- one event


@pytest.mark.parametrize(
    ("damaged", "name"),
    [
        ('{"ph": "X", "name": "a "b" c", "ts": 1}', 'a "b" c'),
        (r'{"ph": "X", "name": "C:\data", "ts": 1}', r"C:\data"),
        ('{"ph": "X", "name": "gemm", "ts": 1},', "gemm"),
    ],
    ids=["quotes in a name", "a backslash that escapes nothing", "the comma behind it"],
)
def test_an_event_is_mended_with_its_name(damaged: str, name: str) -> None:
    assert repair.mend(damaged) == {"ph": "X", "name": name, "ts": 1}


@pytest.mark.parametrize("value", ["NaN", "inf", "-inf", "N/A", "-"])
def test_a_value_that_is_no_number_is_unknown(value: str) -> None:
    assert repair.mend(f'{{"name": "gemm", "dur": {value}}}') == {"name": "gemm", "dur": None}


@pytest.mark.parametrize(
    "text",
    ['{"name": "gemm"', '["name"]', WHOLE + " and more", '{"name": "' + "x" * repair.MAX_MEND + '"}'],
    ids=["cut short", "no object", "two things", "longer than any event"],
)
def test_what_is_no_whole_event_is_not_mended(text: str) -> None:
    assert repair.mend(text) is None


def test_a_name_that_swallowed_the_next_event_is_no_name() -> None:
    assert repair.mend('{"name": "lost, {"ph": "X", "name": "gemm", "ts": 1}') is None


def test_digits_of_a_time_stay_as_they_are_written() -> None:
    (value,) = walked('{"ph": "X", "ts": 1767225600000000.123}]').values
    assert value["ts"] == "1767225600000000.123"


# -------------------------------------------------------------------------------------------------- the array


def test_whole_events_are_read_to_the_end_of_the_array() -> None:
    out = walked(f'{WHOLE},\n{WHOLE}\n], "more": 1}}')
    assert (len(out.values), out.mended, out.dropped.total()) == (2, 0, 0)
    assert (out.ended, out.rest) == (True, b', "more": 1}')


def test_after_an_event_that_cannot_be_mended_the_next_one_is_read() -> None:
    out = walked(f'{WHOLE},\n{{"ph": "X", "name": }},\n{WHOLE}\n]')
    assert len(out.values) == 2
    assert dict(out.dropped) == {"damaged event": 1}


def test_a_mended_event_is_counted_and_none_is_lost() -> None:
    out = walked(f'{WHOLE},\n{{"ph": "X", "name": "a "b"", "ts": 2}},\n{WHOLE}\n]')
    assert [value["name"] for value in out.values] == ["gemm", 'a "b"', "gemm"]
    assert (out.mended, out.dropped.total()) == (1, 0)


def test_a_value_that_is_no_event_is_counted() -> None:
    assert dict(walked(f"7, {WHOLE}]").dropped) == {"not an event": 1}


def test_an_event_that_the_text_does_not_finish_is_what_is_left() -> None:
    out = walked(f'{WHOLE},\n{{"ph": "X", "na')
    assert (len(out.values), out.ended, out.rest) == (1, False, b'{"ph": "X", "na')


def test_a_hole_that_the_disk_never_wrote_counts_as_a_lost_event() -> None:
    out = walked(WHOLE.replace("gemm", "ge" + "\0" * 8 + "mm") + "]")
    assert dict(out.dropped) == {"damaged event": 1}


def test_half_a_character_pair_in_a_name_can_be_printed() -> None:
    (value,) = walked(r'{"ph": "X", "name": "a\ud800b"}]').values
    assert value["name"] == "a?b"


# ---------------------------------------------------------------------------------------------- top-level keys


def test_top_level_keys_are_read_up_to_the_damaged_one() -> None:
    notes = LoadNotes()
    assert repair.top_level(b'{"a": 1, "b": NaN, "c": [2], "d": oops, "e": 5}', notes) == {"a": 1, "b": None, "c": [2]}
    assert notes.warnings == ["a top-level key of the file is damaged and was left out"]


def test_the_base_time_is_found_behind_the_damage() -> None:
    pairs = repair.top_level(b'{"d": oops, "baseTimeNanoseconds": 1767225600000000000}', LoadNotes())
    assert pairs == {"baseTimeNanoseconds": 1767225600000000000}
