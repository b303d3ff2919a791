"""Which measurement's original is the step time that every percentage is about."""

from __future__ import annotations

from typing import Any

from tracelens.model import Ratio, StepTimes, Verification
from tracelens.verify import baseline

MS = 1_000_000


def trial(base_ms: int | None, device: str | None = None, ratio: bool = True) -> Verification:
    details: dict[str, Any] = {"environment": {"device": device}} if device else {}
    timed = Ratio(0.8, 0.7, 0.9) if ratio else None
    return Verification("event-sync", "faster", True, timed, base_ms and base_ms * MS, None, None, "", details)


def test_the_newest_measurement_counts() -> None:
    assert baseline.measured_ns((trial(20), trial(25)), None) == 25 * MS


def test_without_a_measurement_there_is_none() -> None:
    assert baseline.measured_ns((), None) is None
    assert baseline.measured_ns((trial(None), trial(25, ratio=False)), None) is None


def test_a_measurement_on_another_device_is_no_baseline() -> None:
    trials = (trial(20, "NVIDIA H200"), trial(900, "cpu"))
    assert baseline.measured_ns(trials, "NVIDIA H200") == 20 * MS
    assert baseline.measured_ns(trials, None) == 900 * MS


def test_measured_comes_before_unprofiled_and_that_before_recorded() -> None:
    recorded = StepTimes(8, "tracelens", 10 * MS, 9 * MS, 11 * MS)
    assert (recorded.best_known_ns, recorded.baseline_source) == (10 * MS, "recorded")
    unprofiled = StepTimes(8, "tracelens", 10 * MS, 9 * MS, 11 * MS, 8 * MS)
    assert (unprofiled.best_known_ns, unprofiled.baseline_source) == (8 * MS, "unprofiled")
    measured = StepTimes(8, "tracelens", 10 * MS, 9 * MS, 11 * MS, 8 * MS, measured_ns=7 * MS)
    assert (measured.best_known_ns, measured.baseline_source) == (7 * MS, "measured")
