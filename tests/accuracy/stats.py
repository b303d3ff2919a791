"""Medians and intervals, without numpy: a handful of numbers each."""

from __future__ import annotations

import math
from collections.abc import Sequence

_T95 = dict(
    zip(
        range(2, 17),
        (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
        strict=True,
    )
)
"""Student's t for a two-sided 95 % interval, by the number of values."""


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quantile(values: Sequence[float], share: float) -> float:
    """With linear interpolation, as numpy's default."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of logarithms, as times; without spread for a single value."""
    if len(values) < 2:
        return values[0], values[0]
    logs = [math.log(value) for value in values]
    mean = sum(logs) / len(logs)
    variance = sum((value - mean) ** 2 for value in logs) / (len(logs) - 1)
    half = _T95[min(len(values), 16)] * math.sqrt(variance / len(logs))
    return math.exp(mean - half), math.exp(mean + half)


def half_width(values: Sequence[float]) -> float:
    """Half the 95 % interval as a share of the middle."""
    low, high = interval(values)
    return (high - low) / (high + low)


def center(values: Sequence[float]) -> float:
    """The middle that `interval` is around."""
    return math.exp(sum(math.log(value) for value in values) / len(values))
