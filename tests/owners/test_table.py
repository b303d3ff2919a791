"""The page of owners: its tables come from the raw rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.owners import table, twins


def test_the_tables_are_those_of_the_raw_rows() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page) == page


def test_a_row_says_what_was_gained_and_what_was_said() -> None:
    row = {
        "plant": "cache", "size": "large", "plain_us": [34000.0, 34200.0, 35000.0], "gain_in_recording_us": 3260.0,
        "recoverable_us": [[2860.0, -20.0, 3980.0], [None, None, None]], "found": True, "recoverable_is_right": True,
    }  # fmt: skip
    lines = table.twins([row]).splitlines()
    assert lines[2] == "| `cache` | large | 34.20 | 3.26 | 2.86 (−0.02 to 3.98) | right | right |"
    assert lines[-1] == "Owner and line are right in 1 of 1, the number in 1 of 1."


def test_the_price_is_a_mean_over_processes_with_and_without_a_clock() -> None:
    """Of 1.00 and 1.02 the mean is 1.01, the standard error 0.01, and Student's factor of two values 12.706."""
    rows = [
        {"clocked": kind, "plain_us": 1000.0, "inside": [1.5, 1.1], "before": 1.0, "after": after}
        for kind, after in ((True, 1.0), (True, 1.02), (False, 0.99), (False, 0.99))
    ]
    lines = table.price({"H200": {"small": rows, "python": rows}}).splitlines()
    said = "×1.0100 (0.8829 to 1.1371)"
    assert lines[2] == f"| small | H200 | 1.00 | ×1.50 | ×1.10 | {said} | ×0.9900 (0.9900 to 0.9900) | 4 |"
    assert lines[-1].startswith(f"Without `python`, all together: {said} behind a clock")


def test_known_answers_say_by_how_much_they_are_off() -> None:
    newer = [
        {"plant": "gc", "right": True, "taken": 10.0, "owned": 9.6},
        {"plant": "json", "right": False, "taken": 1.0, "owned": 1.08},
        {"plant": "workers", "right": True, "taken": None, "owned": 15.0},
    ]
    lines = table.known(newer, newer).splitlines()
    assert lines[2:5] == [
        "| `gc` | right, 10.00 / 9.60 | −4.0 % | right, 10.00 / 9.60 |",
        "| `json` | wrong, 1.00 / 1.08 | +8.0 % | wrong, 1.00 / 1.08 |",
        "| `workers` | right, – / 15.00 | – | right, – / 15.00 |",
    ]
    assert lines[-1].endswith(
        "in 2 of 3 on 3.12 and in 2 of 3 on 3.11. On 3.12 1 of 2 costs are within 5 %, 2 within 10 %."
    )


def test_lines_of_a_plant_go_together_and_each_goes_once() -> None:
    """Line 5 has a host's and a launches' owner, of which the larger one counts; line 6 has one."""

    def owner(line: int, middle: float | None) -> dict[str, Any]:
        ends = (None, None) if middle is None else (middle - 1, middle + 1)
        return {"locations": [{"line": line}], **dict(zip(twins.RECOVERABLE, (middle, *ends), strict=True))}

    assert twins._said([owner(5, 2.0), owner(5, 4.0), owner(6, 3.0), owner(6, None)])[-1] == [7.0, 5.0, 9.0]
    assert twins._said([owner(5, 2.0)]) == [[2.0, 1.0, 3.0]]


def test_a_gain_of_eight_processes_has_an_interval_that_a_range_must_meet() -> None:
    """Shares of 0.4 and 0.6 by turns: 0.5, standard deviation 0.1069, t of 7 degrees 2.365: ± 0.0894."""
    row = {"processes": 8, "plain_us": [1000.0] * 8, "mended_us": [600.0, 400.0] * 4}
    low, high = twins.gain_interval(row, 2000.0) or (0.0, 0.0)
    assert (low, high) == (pytest.approx(821.2, abs=0.5), pytest.approx(1178.8, abs=0.5))
    assert twins.gain_interval({**row, "processes": 2}, 2000.0) is None
    assert twins.is_right([700.0, 500.0, 830.0], 1000.0, [low, high])
    assert not twins.is_right([600.0, 500.0, 690.0], 1000.0, [low, high])
    assert not twins.is_right([700.0, 500.0, 830.0], 1000.0, None), (
        "without an interval the middle must be in the range"
    )


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("train.py:5 (gc.collect) takes 3 of every 9 ms; without it a step takes 6 ms (predicted).", "the plant"),
        ("train.py:4, 5: Wait every 10th for all work saves 2 ms of every 9 ms step.", "the plant"),
        ("train.py:15 takes 3 ms of every 9 ms step (33 % of the step).", "another line"),
        ("86 kernel launches per step (most at train.py:5) leave the GPU idle 5 of every 9 ms: launch-bound, GPU busy "
         "25 %.", "launch-bound"),
        ("GPU-bound, GPU busy 97 %: nothing to fix in the loop.", "GPU-bound"),
        ("The DataLoader (train.py:2) takes 3 ms of every 9 ms step.", "another line"),
    ],
)  # fmt: skip
def test_what_a_verdict_is_about_is_read_off_its_line(verdict: str, expected: str) -> None:
    """Most launches being made at the plant's line is no answer; a loader's time may go in a worker."""
    row = {"verdict": verdict, "lines": [5, 6], "largest": {"kind": "host_line"}, "found": True}
    assert table._named(row) == expected
    assert (
        table._named({**row, "verdict": "The DataLoader (train.py:2) takes 3 ms.", "largest": {"kind": "dataloader"}})
        == "the plant"
    )
