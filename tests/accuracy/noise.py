"""How far off the predictions are on every pair, with the scatter of the processes taken out.

In: judged rows. Out: `Net`. A measurement that scatters by 10 % says little about one prediction and still something
about a hundred: the mean square error is the predictor's own plus the measurement's, and the second is known from how
processes of the same version differ. Errors are of the change (patched ÷ base), as logarithms; a pair counts the more
the less its row scatters; the interval is from drawing rows anew, since the pairs of a row share its base.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.accuracy.judge import Judged, Pair

CLEAR = 0.03
"""Scatter well below this no longer makes a pair count more: no predictor is that good."""
DRAWS = 1000


@dataclass(frozen=True)
class Net:
    """Root mean squares as shares: of all errors, of the measurement's part, of what is left; and the mean error."""

    total: float
    noise: float
    own: float
    bias: float


@dataclass(frozen=True)
class _Seen:
    error: float
    noise: float
    """Variance."""


def net(rows: Sequence[Judged], name: str = "the replay") -> Net | None:
    """Of one predictor; None without pairs."""
    seen = [_seen(row, pair, name) for row in rows for pair in row.pairs]
    if not seen:
        return None
    weights = [1 / (one.noise + CLEAR**2) for one in seen]
    total = _mean([one.error**2 for one in seen], weights)
    noise = _mean([one.noise for one in seen], weights)
    bias = _mean([one.error for one in seen], weights)
    return Net(math.sqrt(total), math.sqrt(noise), math.sqrt(max(0.0, total - noise)), bias)


def interval(rows: Sequence[Judged], name: str = "the replay") -> tuple[float, float]:
    """95 % interval of `Net.own`."""
    dice = random.Random(0)
    whole = [row for row in rows if row.pairs]
    drawn = [net(dice.choices(whole, k=len(whole)), name) for _ in range(DRAWS)]
    own = sorted(one.own for one in drawn if one is not None)
    return own[round(0.025 * len(own))], own[round(0.975 * len(own)) - 1]


def _seen(row: Judged, pair: Pair, name: str) -> _Seen:
    said = pair.predicted if name == "the replay" else pair.simple[name]
    error = math.log(said / pair.base_predicted) - math.log(pair.measured.step / pair.base.step)
    return _Seen(error, row.process_variance * (1 / pair.measured.processes + 1 / pair.base.processes))


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
