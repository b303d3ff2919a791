"""Negative numbers have one sign, wherever they stand: a real minus."""

from __future__ import annotations

import pytest

from tracelens import units
from tracelens.report import formatting


@pytest.mark.parametrize("ns", [-1, -3_000, -50_000, -100_000, -1_500_000, -150_000_000])
def test_a_negative_time_has_a_minus_and_no_hyphen(ns: int) -> None:
    for said in (units.ms(ns), units.said_ms(ns) if ns <= -10_000 else "−", formatting.signed(ns)):
        assert said.startswith("−") and "-" not in said


def test_a_loss_in_percent_has_the_same_sign() -> None:
    assert (units.signed_percent(-0.6), units.signed_percent(-0.4)) == ("−1 %", "+0 %")
    assert units.percent_range(-4.0, 5.0) == "−4 to +5 %"
