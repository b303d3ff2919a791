"""The answer: which scheme, or none, in one sentence; with its stages and its sensitivity to the weights.

In: rules, ranked schemes, Facts, and what the user can afford (`AdoptionLimits`). Out: a `Recommendation`. The best
ranked scheme wins; without an Estimate or a trial nothing is recommended. The time and the amount of change that the
user gives bind: what breaks them is not recommended, and the sentence says so. The gain is a wish: where it cannot be
had, the fastest that can be had is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.messages import joined, say
from tracelens.model import Patch, Recommendation, Scheme
from tracelens.schemes import ranking
from tracelens.schemes.catalog import CHANGES, Rules, SchemeRule
from tracelens.schemes.facts import AdoptionLimits, Facts
from tracelens.schemes.rare_costs import beside, nothing, recommended
from tracelens.schemes.stages import stages
from tracelens.schemes.weighing import scheme_gain, sensitivity, uncertain
from tracelens.schemes.wording import lever_name

__all__ = ["AdoptionLimits", "Facts", "recommend"]

REVIEW_DAYS = 0.5
"""What a patch of safe hunks only takes: reading and trying it. The seeds' days are for writing it by hand."""


def recommend(
    rules: Rules, schemes: Sequence[Scheme], facts: Facts, limits: AdoptionLimits | None = None
) -> Recommendation:
    """The best scheme that pays within the limits, or none with the reason."""
    found = [candidate.scheme for candidate in ranking.candidates(schemes)]
    plan = stages(rules, schemes, facts)
    judged = facts.has_gpu and facts.unjudged is None
    if not judged or not found:
        maybe = uncertain(schemes) if judged else None
        measure = maybe.id if maybe else None
        return Recommendation(None, nothing(schemes, facts), plan, {}, measure, beside=beside(schemes, facts))
    limits = limits or AdoptionLimits()
    fitting = [scheme for scheme in found if not _broken(scheme, rules, facts, limits) - {"gain"}]
    if not fitting:
        return Recommendation(None, _ruled_out(min(found, key=_rank), rules, facts, limits), plan, {})
    choice = _choose(fitting, rules, facts, limits)
    ties = ranking.ties(ranking.candidates(schemes), facts.told_apart)
    tied = _tied(choice.scheme, fitting, facts)
    details: dict[str, Any] = sensitivity(choice.scheme, found, tied, ties, rules.weights)
    if limits != AdoptionLimits():
        details["limits"] = {"gave_way": list(choice.gave_way), "sentence": choice.sentence}
    verdict = recommended(choice.scheme, details["gives_up"], facts, choice.sentence)
    return Recommendation(choice.scheme.id, verdict, plan, details)


def _tied(winner: Scheme, fitting: Sequence[Scheme], facts: Facts) -> list[Scheme]:
    """The schemes among which the weights decided: those that the winner's step time cannot be told from."""
    by_gain = sorted(ranking.candidates(fitting), key=lambda candidate: candidate.share)
    near = [candidate.scheme for candidate in ranking.near_ties(by_gain, facts.told_apart)]
    return near if winner in near else []


@dataclass(frozen=True, slots=True)
class _Choice:
    scheme: Scheme
    gave_way: tuple[str, ...]
    sentence: str


def _choose(fitting: Sequence[Scheme], rules: Rules, facts: Facts, limits: AdoptionLimits) -> _Choice:
    """The best ranked scheme that has the gain, else the fastest."""
    enough = [scheme for scheme in fitting if not _broken(scheme, rules, facts, limits)]
    if enough:
        return _Choice(min(enough, key=_rank), (), "")
    best = _fastest(fitting)
    reached = scheme_gain(best) or 0.0
    told = say("the gain gives way: {reached:.1f} % of {wanted:g} %", reached=reached, wanted=limits.gain_percent)
    return _Choice(best, ("gain",), told)


def _ruled_out(best: Scheme, rules: Rules, facts: Facts, limits: AdoptionLimits) -> str:
    """Nothing fits the time and the change that were given: what the best scheme would need."""
    rule = rules.scheme(best.id)
    broken = _broken(best, rules, facts, limits)
    needs = []
    if rule is not None and "time" in broken:
        takes = _days(rule, facts.patches.get(best.id))
        if takes == 1:
            needs.append(say("1 day, not {given:g}", given=limits.days))
        else:
            needs.append(say("{days:g} days, not {given:g}", days=takes, given=limits.days))
    if rule is not None and "change" in broken:
        needs.append(say("a change that is {needed}, not {given}", needed=rule.change, given=limits.change))
    gained = f"+{scheme_gain(best) or 0.0:.1f} %"
    wanted = joined(" and ", needs)
    return say(
        "Nothing fits the limits given: {lever} ({gain}) needs {needs}.",
        lever=lever_name(best),
        gain=gained,
        needs=wanted,
    )


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
