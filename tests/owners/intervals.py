"""Means over processes, with what chance does to them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tracelens.verify.compare.times import T95


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and 95 % interval (Student's t; of more than sixteen values that of sixteen, which is wider)."""
    middle = statistics.fmean(values)
    half = T95[min(len(values) - 1, len(T95)) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return {"middle": middle, "low": middle - half, "high": middle + half}
