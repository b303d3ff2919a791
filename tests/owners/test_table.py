"""The page of owners: its tables come from the raw rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.owners import standing, table, twins
from tests.owners.standing import Said


def test_the_tables_are_those_of_the_raw_rows() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert table.filled(page) == page


OWNER = {"kind": "allocator", "recoverable_us_per_step": 2860.0, "low_us": 1900.0, "high_us": 3980.0}
ROW: dict[str, Any] = {
    "plant": "cache", "size": "large", "plain_us": [34000.0, 34200.0, 35000.0], "gain_in_recording_us": 3260.0,
    "recoverable_us": [[2860.0, 1900.0, 3980.0], [None, None, None]], "found": True, "owners": [OWNER],
    "lines": [5], "largest": OWNER,
    "verdict": "train.py:5 (cudaFree) takes 2 ms of every 34.2 ms step; without it a step takes 31.3 ms (predicted).",
}  # fmt: skip


def test_a_row_says_what_was_gained_and_what_was_said() -> None:
    lines = table.twins([ROW]).splitlines()
    assert lines[2] == "| `cache` | large | 34.20 | 3.26 | 2.86 (1.90 to 3.98) | right | right |"
    assert lines[-1] == "Owner and line are right in 1 of 1. The number is right in 1 of 1."
    healthy = {**ROW, "gain_in_recording_us": None, "recoverable_us": [], "owners": []}
    lines = table.twins([ROW, healthy], verdicts=True).splitlines()
    assert lines[2].endswith("| right | right | the plant | right |")
    assert lines[-1].endswith("The verdict names the plant in 1 of 1, and its number holds in 1.")


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


@pytest.mark.parametrize(
    ("said", "gain", "interval", "expected"),
    [
        (Said(700.0, 500.0, 830.0), 1000.0, [821.0, 1179.0], "right"),
        (Said(600.0, 500.0, 690.0), 1000.0, [821.0, 1179.0], "off"),
        (Said(700.0, 500.0, 830.0), 1000.0, None, "off"),
        (Said(900.0, 500.0, 950.0), 1000.0, None, "right"),
        (Said(841.0, -2736.0, 3970.0), 3280.0, [2607.0, 3952.0], "too wide"),
        (Said(1000.0, 400.0, 1500.0), 1000.0, None, "too wide"),
        (Said(1000.0, 500.0, 1500.0), 1000.0, None, "right"),
        (None, 1000.0, None, "none"),
    ],
)
def test_a_number_must_meet_the_gain_and_say_something(
    said: Said | None, gain: float, interval: list[float] | None, expected: str
) -> None:
    assert standing.standing(said, gain, interval) == expected


def test_ranges_of_several_lines_are_not_added_up() -> None:
    """What is said is the largest owner's, or that of the one which the verdict names; the sum of an earlier row is
    neither."""
    owners = [dict(zip(standing.KEYS, numbers, strict=True)) for numbers in ((2e3, 1e3, 3e3), (4e3, 3e3, 5e3))]
    row = {**ROW, "owners": owners, "recoverable_us": [[2e3, 1e3, 3e3], [4e3, 3e3, 5e3], [6e3, 4e3, 8e3]]}
    assert standing.of_row({**row, "verdict": "80 kernel launches: launch-bound."}) == Said(4e3, 3e3, 5e3)
    named = "train.py:5 takes 2 ms of every 9.0 ms step; without it a step takes 7.0 ms (predicted)."
    assert standing.of_row({**row, "verdict": named}) == Said(2e3, 1e3, 3e3)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("train.py:5: Wait every 10th for all work saves 2.0 ms of every 9.0 ms step: +29 % throughput (+20 to +50 %, "
         "predicted).", Said(2000.0, 1500.0, 3000.0)),
        ("train.py:5 leaves the GPU idle 1 of every 9.0 ms; what a change there saves is not sure: −0.5 to 2.0 ms "
         "(predicted).", Said(750.0, -500.0, 2000.0)),
        ("train.py:5 takes 3 ms of every 9.0 ms step; without it a step takes 7.0 ms (6.0 to 8.5, predicted).",
         Said(2000.0, 500.0, 3000.0)),
        ("train.py:5 takes 3 ms of every 9.0 ms step (33 % of the step).", None),
    ],
)  # fmt: skip
def test_the_number_of_a_verdict_is_what_a_step_is_shorter_by(verdict: str, expected: Said | None) -> None:
    found = standing.of_verdict({**ROW, "owners": [], "verdict": verdict})
    if expected is None or found is None:
        assert found == expected
    else:
        assert (found.middle, found.low, found.high) == pytest.approx((expected.middle, expected.low, expected.high))


def test_a_gain_of_eight_processes_has_an_interval_that_a_range_must_meet() -> None:
    """Shares of 0.4 and 0.6 by turns: 0.5, standard deviation 0.1069, t of 7 degrees 2.365: ± 0.0894."""
    row = {"processes": 8, "plain_us": [1000.0] * 8, "mended_us": [600.0, 400.0] * 4}
    low, high = twins.gain_interval(row, 2000.0) or (0.0, 0.0)
    assert (low, high) == (pytest.approx(821.2, abs=0.5), pytest.approx(1178.8, abs=0.5))
    assert twins.gain_interval({**row, "processes": 2}, 2000.0) is None


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
    assert standing.about(row) == expected
    assert (
        standing.about({**row, "verdict": "The DataLoader (train.py:2) takes 3 ms.", "largest": {"kind": "dataloader"}})
        == "the plant"
    )
