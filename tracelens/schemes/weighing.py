"""For which weights the winner changes, and what the winner gives up against the fastest.

In: ranked schemes and the weights. Out: a plain mapping, as `analysis.json` holds it. Weights decide among schemes
whose step times cannot be told apart, so only those are held against each other. A weight is varied alone; the others
keep their proportions. The total is then a straight line in that weight, so the threshold is computed, not searched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracelens.model import Estimate, Scheme
from tracelens.schemes.ranking import common_criteria
from tracelens.schemes.wording import gain_percent
from tracelens.units import told_speedup

NOT_SURE = "not sure"
"""How the reason begins of a scheme that may pay well and may pay nothing."""
SAME = 1e-9  # two totals that differ by less are equal: they were added up in another order


def sensitivity(
    winner: Scheme,
    ranked: Sequence[Scheme],
    tied: Sequence[Scheme],
    ties: Sequence[tuple[str, str]],
    weights: Mapping[str, float],
) -> dict[str, Any]:
    """Thresholds per criterion among the near ties of the winner, and what the choice gives up in speed. `ties`: the
    pairs of all candidates that cannot be told apart, from which a page ranks anew."""
    near = [winner, *(rival for rival in tied if rival.id != winner.id)]
    judged = {name: weights[name] for name in common_criteria(ranked)}
    return {
        "weights": dict(weights),
        "winner": winner.id,
        "near_ties": [scheme.id for scheme in near],
        "ties": [list(pair) for pair in ties],
        "criteria": list(judged),
        "performance_10_is_percent": _best_percent(ranked),
        "changes": {
            criterion: changes for criterion in judged if (changes := _changes(criterion, winner, near[1:], judged))
        },
        "gives_up": gives_up(winner, ranked),
    }


def _best_percent(schemes: Sequence[Scheme]) -> float | None:
    """The gain that scores 10 for performance on this run, as it is told of the fastest candidate."""
    fastest = min((one.estimate for one in schemes if one.estimate is not None), key=_share, default=None)
    return None if fastest is None else round(100 * (told_speedup(fastest.base_ns, fastest.step_ns) - 1), 2)


def _share(estimate: Estimate) -> float:
    """The step then, of the step now."""
    return estimate.step_ns / max(estimate.base_ns, 1)


def gives_up(winner: Scheme, rivals: Sequence[Scheme]) -> dict[str, Any] | None:
    """The fastest scheme and its gain beside the winner's, in percent; None where nothing was estimated."""
    timed = [(scheme, speed) for scheme in rivals if (speed := scheme_gain(scheme)) is not None]
    own = scheme_gain(winner)
    if own is None or not timed:
        return None
    fastest, most = max(timed, key=lambda pair: (pair[1], pair[0].id == winner.id))
    return {
        "fastest": fastest.id,
        "fastest_gain_percent": round(most, 2),
        "winner_gain_percent": round(own, 2),
        "points": round(most - own, 2),
    }


def scheme_gain(scheme: Scheme) -> float | None:
    """The gain of a scheme in percent, measured or replayed; None without either."""
    if scheme.estimate is None:
        return None
    return gain_percent(scheme.estimate.base_ns, scheme.estimate.step_ns)


def uncertain(schemes: Sequence[Scheme]) -> Scheme | None:
    """The most promising of the schemes that were rejected for their range alone."""
    found = [
        one for one in schemes if not one.applicable and any(reason.startswith(NOT_SURE) for reason in one.reasons)
    ]
    return max(found, key=lambda one: scheme_gain(one) or 0.0, default=None)


def _changes(
    criterion: str, winner: Scheme, others: Sequence[Scheme], weights: Mapping[str, float]
) -> list[dict[str, Any]]:
    """The nearest threshold below and above the present weight, each with the scheme that wins beyond it."""
    now = weights[criterion] / (sum(weights.values()) or 1)
    crossings = []
    for other in others:
        at = _crossing(criterion, winner, other, weights)
        if at is not None:
            crossings.append((at, other.id))
    below = max((pair for pair in crossings if pair[0] < now - SAME), default=None)
    above = min((pair for pair in crossings if pair[0] > now + SAME), default=None)
    found = [("below", below), ("above", above)]
    return [{side: round(100 * pair[0], 1), "winner": pair[1]} for side, pair in found if pair is not None]


def _crossing(criterion: str, winner: Scheme, other: Scheme, weights: Mapping[str, float]) -> float | None:
    """The weight (0–1) of one criterion at which both totals are equal; None if there is none between 0 and 1."""
    own, theirs = _line(criterion, winner, weights), _line(criterion, other, weights)
    if own is None or theirs is None:
        return None
    at_zero, slope = own[0] - theirs[0], own[1] - theirs[1]
    if abs(slope) < SAME:
        return None
    at = -at_zero / slope
    return at if SAME < at < 1 - SAME else None


def _line(criterion: str, scheme: Scheme, weights: Mapping[str, float]) -> tuple[float, float] | None:
    """The total as intercept and slope in the weight of one criterion; None where the others weigh nothing."""
    rest = {name: weight for name, weight in weights.items() if name != criterion}
    if sum(rest.values()) == 0:
        return None
    mean = sum(scheme.scores[c].score * weight for c, weight in rest.items()) / sum(rest.values())
    return mean, scheme.scores[criterion].score - mean
