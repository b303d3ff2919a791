"""The page of owners: its tables come from the raw rows."""

from __future__ import annotations

import pytest

from tests.owners import table


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


def test_ratios_are_pooled_by_how_well_each_is_known() -> None:
    """Twice the width is a quarter of the weight."""
    known = [{"middle": 1.0, "low": 0.99, "high": 1.01}, {"middle": 1.05, "low": 1.03, "high": 1.07}]
    middle, half = table.pooled(known)
    assert middle == pytest.approx((4 * 1.0 + 1.05) / 5)
    assert half == pytest.approx(0.01 / (5 / 4) ** 0.5)
