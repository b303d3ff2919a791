"""Means over processes, with what chance does to them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tracelens.verify.compare.times import T95


def interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and 95 % interval (Student's t)."""
    middle = statistics.fmean(values)
    half = _student(len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return {"middle": middle, "low": middle - half, "high": middle + half}


def _student(freedom: int) -> float:
    """Beyond the table by its expansion, which is right to 0.004 there."""
    return T95[freedom - 1] if freedom <= len(T95) else 1.96 + 2.4 / freedom
