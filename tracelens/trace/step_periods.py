"""Steps that take much longer than the others, and how often they come: a checkpoint every tenth step, an evaluation.

In: the lengths of steps that nothing was recorded of, in order. Out: a `SlowPattern`, or None where no step is slow.
Pure and without numpy: the recording asks as well, inside the user's process, to know which step to look at.

The median step says nothing of what happens in every tenth one, and the mean of a short window depends on how many of
these it holds. So slow steps are told apart from the others first, and then counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tracelens.model import SlowPattern

FACTOR = 1.5
"""Of the median step. Ordinary steps of one loop differed by up to 1.3 x on a busy shared host."""
SPREADS = 6.0
"""Of the deviation of ordinary steps (1.48 x the median one): where steps differ, more is needed to stand out."""
FEWEST_STEPS = 12
"""Of fewer nobody can say what an ordinary one is."""
MOST_SHARE = 0.34
"""Of the steps: where more than a third is slow, that is the loop's own speed, or two kinds of steps."""
FEWEST_IN_PERIOD = 3
"""Slow steps at equal distances: two always are."""
SEEN_SHARE = 0.8
"""Of the steps at a period that must be slow: the first of an epoch may do without."""
COVERED_SHARE = 0.6
"""Of the slow time that must come at the period: the rest are other slow steps, and the machine's."""
LEVELS = (0.0, 0.25, 0.5)
"""Of what the third slowest step takes longer: among steps above each of these a period is looked for."""
NORMAL = 1.4826
"""Median deviation to standard deviation."""


def find(lengths: Sequence[int]) -> SlowPattern | None:
    """The slow steps; None where there is none, where too many are, and where too few steps were timed."""
    if len(lengths) < FEWEST_STEPS:
        return None
    ordinary = statistics.median(lengths)
    spread = NORMAL * statistics.median(abs(length - ordinary) for length in lengths)
    least = ordinary + max((FACTOR - 1) * ordinary, SPREADS * spread)
    slow = {place: round(length - ordinary) for place, length in enumerate(lengths) if length > least}
    if len(slow) > MOST_SHARE * len(lengths):  # among steps that all differ, those that stand out from the slow ones
        third = sorted(slow.values())[-3]
        slow = {place: ns for place, ns in slow.items() if ns >= LEVELS[-1] * third}
    if not slow or len(slow) > MOST_SHARE * len(lengths):
        return None
    every, places = _period(slow, len(lengths))
    excess = tuple(slow[place] for place in places)
    return SlowPattern(len(lengths), round(ordinary), places, excess, every, sum(lengths))


def _period(slow: dict[int, int], steps: int) -> tuple[int | None, tuple[int, ...]]:
    """The distance that explains most of the slow time, and the steps at it."""
    places = sorted(slow)
    best: tuple[int, int, tuple[int, ...]] | None = None
    for distance in _distances(slow):
        for phase in sorted({place % distance for place in places}):
            hits = tuple(place for place in places if place % distance == phase)
            due = len(range(phase, steps, distance))
            covered = sum(slow[place] for place in hits)
            if len(hits) >= FEWEST_IN_PERIOD and len(hits) >= SEEN_SHARE * due and (best is None or covered > best[0]):
                best = covered, distance, hits
    if best is None or best[0] < COVERED_SHARE * sum(slow.values()):
        return None, tuple(places)
    return best[1], best[2]


def _distances(slow: dict[int, int]) -> list[int]:
    """Between neighbours among all slow steps, and among those that are as slow as the third: the machine's own lie
    between them, and are shorter."""
    third = sorted(slow.values())[-3:][0]
    found: set[int] = set()
    for level in LEVELS:
        places = [place for place in sorted(slow) if slow[place] >= level * third]
        found |= {later - earlier for earlier, later in zip(places, places[1:])}  # noqa: B905, RUF007 -- Python 3.10
    return sorted(found)
