"""Who comes first on a run: the gain, then the weights over what was judged of all; never an opinion."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelens.model import CRITERIA, Edit, Estimate, FilePatch, Patch, Scheme, Score
from tracelens.schemes import ranking, rules, weighing

MS = 1_000_000
WEIGHTS = rules.load().weights


def scheme(name: str, step_ms: float, noise_ms: float = 0.1, evidence: str = "replayed", **scores: float) -> Scheme:
    """A scheme that shortens a step of 10 ms, with the criteria given; 10 for those that are not named."""
    step, half = round(step_ms * MS), round(noise_ms * MS)
    estimate = Estimate(10 * MS, step, step - half, step + half, "host", "unprofiled", evidence)
    known = {c: Score(scores.get(c, 10.0), "patch") for c in CRITERIA if c != "performance"}
    return Scheme(name, name, (Edit("defer-read", (name,)),), None, known, None, None, None, None, estimate, True, ())


def ids(*schemes: Scheme, weights=WEIGHTS, told_apart=None) -> list[str]:
    return [one.id for one in ranking.order(ranking.candidates(schemes), weights, told_apart or {})]


def test_the_larger_gain_comes_first_however_small_the_other_patch_is() -> None:
    large = scheme("large", 5.0, complexity=2, maintainability=2, difficulty=2)
    assert ids(scheme("small", 6.0), large) == ["large", "small"]


def test_of_two_gains_that_cannot_be_told_apart_the_easier_patch_comes_first() -> None:
    large = scheme("large", 5.9, noise_ms=0.3, complexity=2)
    small = scheme("small", 6.0, noise_ms=0.3)
    assert ids(small, large) == ["small", "large"]
    assert ids(small, large, told_apart={frozenset(("small", "large")): True}) == ["large", "small"]


def test_a_pair_that_the_replay_cannot_tell_apart_is_a_near_tie_whatever_the_ranges() -> None:
    large, small = scheme("large", 5.0, noise_ms=0.01, complexity=2), scheme("small", 6.0, noise_ms=0.01)
    assert ids(small, large, told_apart={frozenset(("small", "large")): False}) == ["small", "large"]


def test_two_measured_gains_are_compared_by_their_intervals() -> None:
    large = scheme("large", 5.0, noise_ms=0.9, evidence="measured", complexity=2)
    small = scheme("small", 6.0, noise_ms=0.9, evidence="measured")
    apart = {frozenset(("small", "large")): True}  # of their replays, which the measurements overrule
    assert ids(small, large, told_apart=apart) == ["small", "large"]


def test_a_measurement_breaks_a_tie() -> None:
    assert ids(scheme("replayed", 6.0), scheme("measured", 6.0, evidence="measured")) == ["measured", "replayed"]


def test_a_scheme_between_two_near_ties_is_not_left_out() -> None:
    """`exact` is told from the fastest; `wide` is slower than it and is not: all three compete by weight."""
    fastest = scheme("fastest", 5.0, noise_ms=0.1, complexity=1)
    exact = scheme("exact", 5.5, noise_ms=0.1)
    wide = scheme("wide", 5.8, noise_ms=2.0, complexity=9)
    assert ids(fastest, wide, exact)[0] == "exact"


def test_equal_patches_are_one_candidate_under_the_smaller_scheme() -> None:
    patch = Patch(Path(), (FilePatch(Path("train.py"), b"a", b"b"),), (), (), "")
    both = ranking.with_twins(
        [scheme("more-streams", 6.0), scheme("pinned-copy", 6.0)],
        {"more-streams": patch, "pinned-copy": patch},
        {"more-streams": 2, "pinned-copy": 1},
    )
    assert [one.same_as for one in both] == ["pinned-copy", None]
    assert both[0].reasons[0] == "on this loop the same change as: Copy from pinned memory"
    assert ids(*both) == ["pinned-copy"]


def test_performance_is_scored_against_the_best_candidate() -> None:
    first, second = ranking.order(ranking.candidates((scheme("a", 5.0), scheme("b", 7.5))), WEIGHTS, {})
    assert (first.scores["performance"].score, second.scores["performance"].score) == (10.0, 5.0)


def test_the_threshold_of_a_weight_is_where_both_totals_are_equal() -> None:
    weights = {**dict.fromkeys(CRITERIA, 0.0), "performance": 60.0, "complexity": 40.0}
    quick, small = scheme("quick", 5.0, complexity=8), scheme("small", 5.25)  # performance 10 and 9.5
    close = {frozenset(("quick", "small")): False}
    near = ranking.order(ranking.candidates((quick, small)), weights, close)
    assert [one.id for one in near] == ["small", "quick"]  # 0.6 x 9.5 + 0.4 x 10 = 9.7; 0.6 x 10 + 0.4 x 8 = 9.2
    changes = weighing.sensitivity(near[0], near, near, (), weights)["changes"]
    # 10 p + 8 (1 - p) = 9.5 p + 10 (1 - p) at p = 0.8
    assert changes["performance"] == [{"above": 80.0, "winner": "quick"}]
    assert changes["complexity"] == [{"below": 20.0, "winner": "quick"}]


# ------------------------------------------------------------------------------------------------------ properties

score = st.floats(0, 10).map(lambda value: round(value, 1))
steps = st.floats(3, 9.5).map(lambda value: round(value, 2))
OTHERS = [c for c in CRITERIA if c != "performance"]
some = st.lists(
    st.tuples(steps, st.floats(0.01, 1.5), st.fixed_dictionaries(dict.fromkeys(OTHERS, score))), min_size=2, max_size=5
)
pairs = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.booleans(), max_size=6)
"""Which replays tell each other apart, as far as a pair was replayed: ties need not be transitive."""
weighting = st.fixed_dictionaries(dict.fromkeys(OTHERS, st.integers(0, 100)) | {"performance": st.integers(1, 100)})


def drawn(found: list[tuple[float, float, dict[str, float]]]) -> list[Scheme]:
    return [scheme(f"s{n}", step, noise, **scores) for n, (step, noise, scores) in enumerate(found)]


def apart(told: dict[tuple[int, int], bool]) -> dict[frozenset[str], bool]:
    return {frozenset((f"s{one}", f"s{other}")): differ for (one, other), differ in told.items() if one != other}


@settings(max_examples=100)
@given(some, pairs, weighting)
def test_with_equal_effort_the_faster_ranks_first(found, told, weights) -> None:
    schemes = [scheme(f"s{n}", step, noise) for n, (step, noise, _) in enumerate(found)]
    speeds = {one.id: one.estimate.step_ns for one in schemes}
    ordered = [speeds[name] for name in ids(*schemes, weights=weights, told_apart=apart(told))]
    assert ordered == sorted(ordered)


@settings(max_examples=100)
@given(some, pairs, weighting, st.sampled_from(OTHERS))
def test_a_criterion_that_nobody_judged_of_one_changes_no_rank(found, told, weights, criterion) -> None:
    without = [replace(s, scores={c: v for c, v in s.scores.items() if c != criterion}) for s in drawn(found)]
    partly = [
        replace(s, scores=o.scores) if n else s for n, (s, o) in enumerate(zip(without, drawn(found), strict=True))
    ]
    known = {"weights": weights, "told_apart": apart(told)}
    assert ids(*without, **known) == ids(*partly, **known)


@settings(max_examples=100)
@given(some, pairs, weighting, st.integers(2, 50))
def test_scaling_all_times_changes_no_rank(found, told, weights, factor) -> None:
    schemes = drawn(found)
    times = ("base_ns", "step_ns", "low_ns", "high_ns")
    scaled = [
        replace(s, estimate=replace(s.estimate, **{name: factor * getattr(s.estimate, name) for name in times}))
        for s in schemes
    ]
    known = {"weights": weights, "told_apart": apart(told)}
    assert ids(*schemes, **known) == ids(*scaled, **known)


@pytest.mark.slow
@settings(max_examples=200)
@given(some, pairs, weighting)
def test_a_dominated_scheme_never_wins(found, told, weights) -> None:
    schemes = drawn(found)
    first = next(s for s in schemes if s.id == ids(*schemes, weights=weights, told_apart=apart(told))[0])
    for other in schemes:
        no_worse = all(other.scores[c].score >= first.scores[c].score for c in first.scores)
        assert not (other.estimate.step_ns < first.estimate.step_ns and no_worse), other


@pytest.mark.slow
@settings(max_examples=200)
@given(some, pairs, weighting, st.randoms(use_true_random=False))
def test_the_order_is_total_and_does_not_depend_on_the_order_of_the_rules(found, told, weights, shuffle) -> None:
    """Also where schemes are equal in all that counts."""
    schemes = drawn([*found, found[0]])
    known = {"weights": weights, "told_apart": apart(told)}
    ranked = ids(*schemes, **known)
    assert sorted(ranked) == sorted(s.id for s in schemes)
    mixed = list(schemes)
    shuffle.shuffle(mixed)
    assert ids(*mixed, **known) == ranked


@pytest.mark.slow
@settings(max_examples=200)
@given(some, pairs, weighting)
def test_the_ties_that_a_page_is_given_are_all_that_ranking_anew_takes(found, told, weights) -> None:
    schemes = drawn(found)
    among = ranking.candidates(schemes)
    tied = {frozenset(pair) for pair in ranking.ties(among, apart(told))}
    again = {frozenset((a.id, b.id)): frozenset((a.id, b.id)) not in tied for a, b in combinations(schemes, 2)}
    assert ids(*schemes, weights=weights, told_apart=again) == ids(*schemes, weights=weights, told_apart=apart(told))
