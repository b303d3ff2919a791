"""From the step times of interleaved processes to one ratio with its interval, and the verdict on the speed.

In: pairs of step times (original, patched). Out: `Ratio` and an outcome. The unit of the statistics is the process, not
the step: steps of one process share its clock speed, its memory layout and the load of the machine. Each pair of
neighboring processes gives one log ratio. Few of them: Student's t. Enough of them: the signed-rank interval, which a
burst of other load on the machine does not widen. The one number that is shown is the median pair's, whose two step
times were measured beside each other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from tracelens.model import Ratio
from tracelens.verify.policy import POLICY, VerifyPolicy

METHOD = (
    "pairs of interleaved processes, each with the median of its blocks of steps; the ratio patched/original is the "
    "median pair's (of an even number, of the means of the two middle ones); its 95 % interval is Student's t of the "
    "log ratios up to 7 pairs, from 8 on the signed-rank interval"
)
# Two-sided 95 % quantiles of Student's t by degrees of freedom, 1 to 15; beyond, the last one is on the safe side.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)

# Rank from either end of the ordered Walsh averages that bounds the signed-rank interval of at least 95 %, by pairs.
_SIGNED_RANK = {8: 4, 9: 6, 10: 9, 11: 11, 12: 14, 13: 18, 14: 22, 15: 26}

Speed = Literal["faster", "no change", "slower", "inconclusive"]


def median_pair(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The step times (original, patched) of the pair whose ratio is the middle one; of an even number of pairs the
    means of both sides of the two middle ones. None without pairs."""
    if not pairs:
        return None
    ordered = sorted(pairs, key=lambda pair: pair[1] / pair[0])
    middle = ordered[(len(pairs) - 1) // 2 : len(pairs) // 2 + 1]
    return statistics.fmean(pair[0] for pair in middle), statistics.fmean(pair[1] for pair in middle)


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """patched ÷ original over pairs (original, patched): the median pair's, with an interval; None with fewer than two
    pairs (no spread to judge by)."""
    if len(pairs) < 2 or any(min(pair) <= 0 for pair in pairs):
        return None
    logs = [math.log(patched / original) for original, patched in pairs]
    low, high = map(math.exp, _signed_rank(logs) if len(logs) >= min(_SIGNED_RANK) else _student(logs))
    middle = median_pair(pairs)
    assert middle is not None
    value = middle[1] / middle[0]
    return Ratio(value, min(low, value), max(high, value))  # equal pairs differ in the last bit; very skewed ones more


def judge(ratio: Ratio | None, pairs: int, policy: VerifyPolicy = POLICY) -> Speed:
    """The verdict that the interval supports."""
    if ratio is None or pairs < policy.least_pairs:
        return "inconclusive"
    if ratio.high < 1 and 1 / ratio.value - 1 >= policy.minimum_gain:
        return "faster"
    if ratio.low > 1 and ratio.value - 1 >= policy.minimum_gain:
        return "slower"
    narrow = (ratio.high - ratio.low) / 2 <= policy.decisive_half_width
    return "no change" if narrow else "inconclusive"


def _student(logs: list[float]) -> tuple[float, float]:
    center = statistics.fmean(logs)
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    half = T95[min(len(logs) - 1, len(T95)) - 1] * error
    return center - half, center + half


def _signed_rank(logs: list[float]) -> tuple[float, float]:
    """The interval of Wilcoxon's test, from all pairwise averages."""
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    rank = _SIGNED_RANK.get(len(logs)) or _rank_of_many(len(logs))
    return walsh[rank - 1], walsh[-rank]


def _rank_of_many(count: int) -> int:
    """Beyond the table the rank's distribution is normal to within one rank; rounded to the safe side."""
    middle, spread = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    return math.floor(middle - 1.96 * spread)
