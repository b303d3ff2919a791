"""The answer: which scheme, or none, in one sentence; with its stages and its sensitivity to the weights.

In: rules, scored schemes, Facts, and what the user can afford (`AdoptionLimits`). Out: a `Recommendation`. A scheme
wins by its weighted total among those that pay: without an Estimate or a trial nothing is recommended. Where time, gain
and change cannot all be had, the sentence says which one gives way: first the gain (the best that can be had is taken),
then the time, then the amount of change, at last several of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.model import Patch, Recommendation, Scheme
from tracelens.schemes.catalog import CHANGES, Rules, SchemeRule
from tracelens.schemes.facts import AdoptionLimits, Facts
from tracelens.schemes.stages import stages
from tracelens.schemes.verdict import nothing, recommended
from tracelens.schemes.weighing import scheme_gain, sensitivity, uncertain

__all__ = ["AdoptionLimits", "Facts", "recommend"]

REVIEW_DAYS = 0.5
"""What a patch of safe hunks only takes: reading and trying it. The seeds' days are for writing it by hand."""

_ORDERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in ("", "gain", "time", "change", "gain time", "gain change", "time change", "gain time change")
)
"""Which limits give way, tried in this order: the fewest first, the wish (gain) before the means (time, change)."""


def recommend(
    rules: Rules, schemes: Sequence[Scheme], facts: Facts, limits: AdoptionLimits | None = None
) -> Recommendation:
    """The best scheme that pays within the limits, or none with the reason."""
    paying = [scheme for scheme in schemes if scheme.applicable and scheme.estimate is not None]
    plan = stages(rules, schemes, facts)
    judged = facts.has_gpu and facts.unjudged is None
    if not judged or not paying:
        maybe = uncertain(schemes) if judged else None
        return Recommendation(None, nothing(schemes, facts), plan, {}, maybe.id if maybe else None)
    choice = _choose(paying, rules, facts, limits or AdoptionLimits())
    details: dict[str, Any] = sensitivity(choice.scheme, paying, rules.weights)
    if limits is not None and limits != AdoptionLimits():
        details["limits"] = {"gave_way": list(choice.gave_way), "sentence": choice.sentence}
    verdict = recommended(choice.scheme, details["gives_up"], facts, choice.sentence)
    return Recommendation(choice.scheme.id, verdict, plan, details)


@dataclass(frozen=True, slots=True)
class _Choice:
    scheme: Scheme
    gave_way: tuple[str, ...]
    sentence: str


def _choose(paying: Sequence[Scheme], rules: Rules, facts: Facts, limits: AdoptionLimits) -> _Choice:
    """The best ranked scheme within the limits, dropping as few limits as need be."""
    for dropped in _ORDERS:
        fitting = [scheme for scheme in paying if not _broken(scheme, rules, facts, limits) - dropped]
        if fitting:
            best = _fastest(fitting) if "gain" in dropped else min(fitting, key=_rank)
            gave_way = tuple(sorted(_broken(best, rules, facts, limits)))
            return _Choice(best, gave_way, _sentence(best, gave_way, rules, facts, limits))
    raise AssertionError("with every limit dropped each paying scheme fits")


def _rank(scheme: Scheme) -> int:
    return scheme.rank if scheme.rank is not None else 1_000_000  # unranked ones come last


def _fastest(schemes: Sequence[Scheme]) -> Scheme:
    return max(schemes, key=lambda scheme: (scheme_gain(scheme) or 0.0, -_rank(scheme)))


def _broken(scheme: Scheme, rules: Rules, facts: Facts, limits: AdoptionLimits) -> frozenset[str]:
    """The limits that this scheme does not keep."""
    rule = rules.scheme(scheme.id)
    if rule is None:
        return frozenset()
    broken = set()
    if limits.days is not None and _days(rule, facts.patches.get(scheme.id)) > limits.days:
        broken.add("time")
    if limits.gain_percent is not None and (scheme_gain(scheme) or 0.0) < limits.gain_percent:
        broken.add("gain")
    if limits.change is not None and CHANGES.index(rule.change) > CHANGES.index(limits.change):
        broken.add("change")
    return frozenset(broken)


def _days(rule: SchemeRule, patch: Patch | None) -> float:
    ready = patch is not None and not patch.empty and not patch.by_hand
    if ready and patch is not None and all(hunk.tier in ("safe", "checked") for hunk in patch.hunks):
        return min(REVIEW_DAYS, rule.days_needed)
    return rule.days_needed


def _sentence(scheme: Scheme, gave_way: tuple[str, ...], rules: Rules, facts: Facts, limits: AdoptionLimits) -> str:
    """Which limit gives way, in words; empty when all are kept."""
    rule = rules.scheme(scheme.id)
    parts = []
    for name in gave_way:
        if name == "gain":
            parts.append(f"the gain gives way: {scheme_gain(scheme) or 0.0:.1f} % of {limits.gain_percent:g} %")
        elif name == "time" and rule is not None:
            takes = _days(rule, facts.patches.get(scheme.id))
            parts.append(
                f"the time gives way: it takes {takes:g} {'day' if takes == 1 else 'days'}, not {limits.days:g}"
            )
        elif rule is not None:
            parts.append(f"the amount of change gives way: {rule.change}, not {limits.change}")
    return "; ".join(parts)
