"""Order the schemes that pay on this run: by what they gain, near ties by the user's weights.

In: judged `Scheme`s with an estimate, their patches, and which replays tell each other apart. Out: the same schemes,
best first, with rank and total. Two rules, no opinion of the seeds:

    gain first     the scheme with the shortest step wins, unless another one's step time cannot be told from it
    near ties      among those, the higher weighted total wins: the user's weights over the criteria judged of *all*
                   candidates. A criterion that was not judged of one is left out for all, so a gap cannot help

Schemes whose patches write the same bytes are one candidate under the smaller scheme; the others name it in `same_as`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import hypot
from typing import NamedTuple

from tracelens.messages import say
from tracelens.model import CRITERIA, Estimate, Patch, Scheme, Score
from tracelens.schemes.wording import lever_name

ENDS = 10.0
"""Performance of the candidate with the shortest step; what gains nothing has 0."""


class Candidate(NamedTuple):
    """A scheme that pays, with its estimate."""

    scheme: Scheme
    estimate: Estimate

    @property
    def share(self) -> float:
        """The new step as a share of the present one."""
        return self.estimate.step_ns / self.estimate.base_ns


def candidates(schemes: Sequence[Scheme]) -> tuple[Candidate, ...]:
    """The schemes that can be ranked: they apply, they pay, and they are not another one under a second name."""
    return tuple(
        Candidate(scheme, scheme.estimate)
        for scheme in schemes
        if scheme.applicable and scheme.same_as is None and scheme.estimate is not None
    )


def with_twins(schemes: Sequence[Scheme], patches: Mapping[str, Patch], size: Mapping[str, int]) -> list[Scheme]:
    """The schemes, those whose change another one makes as well marked with its id: the one of the smaller `size`."""
    first: dict[object, Scheme] = {}
    for scheme in sorted(schemes, key=lambda scheme: (size[scheme.id], scheme.id)):
        change = _change(scheme, patches.get(scheme.id))
        if scheme.applicable and change is not None:
            first.setdefault(change, scheme)
    return [_named(scheme, first.get(_change(scheme, patches.get(scheme.id)))) for scheme in schemes]


def order(
    found: Sequence[Candidate], weights: Mapping[str, float], told_apart: Mapping[frozenset[str], bool]
) -> tuple[Scheme, ...]:
    """The candidates with total and rank, best first. `told_apart`: per pair, whether the replay of both differs."""
    scored = _with_totals(found, weights)
    left = sorted(scored, key=lambda candidate: (candidate.share, -_total(candidate), candidate.scheme.id))
    ranked: list[Scheme] = []
    while left:
        best = min(near_ties(left, told_apart), key=_preferred)
        left.remove(best)
        ranked.append(replace(best.scheme, rank=len(ranked) + 1))
    return tuple(ranked)


def near_ties(
    by_gain: Sequence[Candidate], told_apart: Mapping[frozenset[str], bool] | None = None
) -> Sequence[Candidate]:
    """The fastest candidate and all down to the slowest one that cannot be told from it: none between is left out."""
    fastest = by_gain[0]
    tied = [n for n, other in enumerate(by_gain) if n == 0 or not _differ(fastest, other, told_apart or {})]
    return by_gain[: tied[-1] + 1]


def ties(found: Sequence[Candidate], told_apart: Mapping[frozenset[str], bool]) -> tuple[tuple[str, str], ...]:
    """The pairs of candidates whose step times cannot be told apart: what `order` decides by the weights."""
    return tuple(
        (one.scheme.id, other.scheme.id) for one, other in combinations(found, 2) if not _differ(one, other, told_apart)
    )


def common_criteria(schemes: Sequence[Scheme]) -> tuple[str, ...]:
    """The criteria that were judged of every one of these schemes."""
    return tuple(name for name in CRITERIA if all(name in scheme.scores for scheme in schemes))


def weighted(scores: Mapping[str, Score], weights: Mapping[str, float], criteria: Sequence[str]) -> float | None:
    """The weighted mean over these criteria; None when none of them weighs anything."""
    weight = sum(weights[name] for name in criteria)
    if weight == 0:
        return None
    return round(sum(scores[name].score * weights[name] for name in criteria) / weight, 2)


def _with_totals(found: Sequence[Candidate], weights: Mapping[str, float]) -> list[Candidate]:
    """Performance as a share of the best gain here, and the total over what is known of all."""
    most = max((1 - candidate.share for candidate in found), default=0.0)
    performed = [_with_performance(candidate, most) for candidate in found]
    criteria = common_criteria([candidate.scheme for candidate in performed])
    return [
        candidate._replace(scheme=replace(candidate.scheme, total=weighted(candidate.scheme.scores, weights, criteria)))
        for candidate in performed
    ]


def _with_performance(candidate: Candidate, most: float) -> Candidate:
    gained = max(0.0, 1 - candidate.share)
    score = Score(round(ENDS * gained / most, 2) if most > 0 else 0.0, candidate.estimate.evidence)
    by_criterion = {**candidate.scheme.scores, "performance": score}
    ordered = {name: by_criterion[name] for name in CRITERIA if name in by_criterion}
    return candidate._replace(scheme=replace(candidate.scheme, scores=ordered))


def _differ(one: Candidate, other: Candidate, told_apart: Mapping[frozenset[str], bool]) -> bool:
    """Whether the step times of two candidates differ: by their ranges where both were measured, else by their replays
    as a pair, else by their ranges again."""
    measured = one.estimate.evidence == other.estimate.evidence == "measured"
    known = None if measured else told_apart.get(frozenset((one.scheme.id, other.scheme.id)))
    if known is not None:
        return known
    return abs(one.share - other.share) > hypot(_half_width(one.estimate), _half_width(other.estimate))


def _half_width(estimate: Estimate) -> float:
    return estimate.noise_ns / estimate.base_ns


def _preferred(candidate: Candidate) -> tuple[float, bool, float, str]:
    """Among near ties: the higher total, then what was measured, then the faster; the id, so that it is one order."""
    measured = candidate.estimate.evidence == "measured"
    return -_total(candidate), not measured, candidate.share, candidate.scheme.id


def _total(candidate: Candidate) -> float:
    return candidate.scheme.total or 0.0


def _change(scheme: Scheme, patch: Patch | None) -> object:
    """What a scheme writes, comparable; the Edits where no source is at hand; None where it changes nothing."""
    if patch is not None:
        return tuple((file.path, file.after) for file in patch.files) or None
    return scheme.edits or None


def _named(scheme: Scheme, first: Scheme | None) -> Scheme:
    if first is None or first.id == scheme.id or not scheme.applicable:
        return scheme
    reason = say("on this loop the same change as: {lever}", lever=lever_name(first))
    return replace(scheme, same_as=first.id, reasons=(reason, *scheme.reasons))
