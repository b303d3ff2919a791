"""The speed-up of several levers from few pairs each, with a spread that all of them share.

In: per lever the pairs of step times (original, lever). Out: `Speedup`s with 95 % intervals. Three pairs or more have a
spread of their own. One or two pairs have none worth the name; the machine's noise is the same for all levers of one
session, so their residuals are pooled, and a lever with one pair still gets an interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tracelens.model import Speedup
from tracelens.verify.compare.times import T95, median_pair, ratio_of

Pairs = Sequence[tuple[float, float]]
OWN_SPREAD = 3
"""Pairs from which on a lever's own spread is used."""
LEAST_FREEDOM = 2
"""Residuals without which nothing is said of a lever that has too few pairs of its own."""


def speedups(pairs: Mapping[str, Pairs]) -> dict[str, Speedup | None]:
    """Original ÷ lever, by lever; None where too little is known for an interval."""
    spread, freedom = _pooled(pairs.values())
    return {name: _own(own) if len(own) >= OWN_SPREAD else _shared(own, spread, freedom) for name, own in pairs.items()}


def center(pairs: Pairs) -> float | None:
    """The mean of the log ratios alone: which of two is worth more time, before there is an interval."""
    return math.exp(statistics.fmean(_logs(pairs))) if pairs else None


def _own(pairs: Pairs) -> Speedup | None:
    ratio = ratio_of(pairs)
    return None if ratio is None else Speedup(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def _shared(pairs: Pairs, spread: float, freedom: int) -> Speedup | None:
    both = median_pair(pairs)
    if both is None or freedom < LEAST_FREEDOM:
        return None
    middle = math.log(both[0] / both[1])
    half = T95[min(freedom, len(T95)) - 1] * spread / math.sqrt(len(pairs))
    return Speedup(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def _pooled(all_pairs: Iterable[Pairs]) -> tuple[float, int]:
    """The standard deviation of one log ratio around its lever's mean, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for pairs in all_pairs:
        logs = _logs(pairs)
        if len(logs) >= 2:
            mean = statistics.fmean(logs)
            squares += sum((value - mean) ** 2 for value in logs)
            freedom += len(logs) - 1
    return (math.sqrt(squares / freedom) if freedom else 0.0), freedom


def _logs(pairs: Pairs) -> list[float]:
    return [math.log(original / lever) for original, lever in pairs]
