"""A call left out, or made every K-th time: the changed text runs and does what it says."""

from __future__ import annotations

import pytest

from tracelens.errors import UsageError
from tracelens.levers.line_edit import place, without_call

TEXT = """from __future__ import annotations
calls = []
def note(*values):
    calls.append(values)
    return 1
for step in range(6):
    total = note("a", step)
    note(
        "b",
        step,
    )
    if step: note("ü"); note("d", step)
"""


def run(value: str) -> list[tuple[object, ...]]:
    changed = without_call(TEXT, place(value))
    assert changed.count("\n") == TEXT.count("\n")
    names: dict[str, list[tuple[object, ...]]] = {}
    exec(compile(changed, "train.py", "exec"), names)
    return names["calls"]


def steps(calls: list[tuple[object, ...]], word: str) -> list[object]:
    return [call[1] for call in calls if call[0] == word]


def test_a_call_that_stands_by_itself_is_left_out_whichever_of_its_lines_is_named() -> None:
    for line in (8, 10):
        calls = run(f"train.py:{line}")
        assert steps(calls, "b") == []
        assert steps(calls, "a") == [0, 1, 2, 3, 4, 5]


def test_a_call_is_made_every_third_time() -> None:
    assert steps(run("train.py:8/3"), "b") == [2, 5]


def test_what_a_call_returns_becomes_none() -> None:
    calls = run("train.py:7")
    assert steps(calls, "a") == []
    assert steps(calls, "b") == [0, 1, 2, 3, 4, 5]


def test_the_last_of_several_statements_on_a_line_is_meant() -> None:
    calls = run("train.py:12")
    assert steps(calls, "d") == []
    assert calls.count(("ü",)) == 5


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("train.py:6", "train.py:6 is no call that can be left out"),
        ("train.py:5", "train.py:5 is no call that can be left out"),
        ("train.py:99", "train.py:99 holds no statement"),
        ("train.py:7/2", "what train.py:7 returns is used, so it cannot be called every 2 times only"),
        ("train.py:12/2", "train.py:12 has more than one statement"),
        ("train.py:8/1", "every 1 calls is every call"),
        ("train.py", "'train.py' is no place"),
    ],
)
def test_what_cannot_be_left_out_is_said(value: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        without_call(TEXT, place(value))
    assert caught.value.message == said


def test_a_file_that_is_no_python_is_named() -> None:
    with pytest.raises(UsageError, match=r"train\.py is not Python"):
        without_call("for", place("train.py:1"))
