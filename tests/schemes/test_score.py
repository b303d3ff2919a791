"""Priors become evidence: where each score comes from, what is rejected, and who comes first."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tracelens.model import (
    Abstention,
    Declined,
    Edit,
    Estimate,
    FilePatch,
    Hunk,
    Location,
    Patch,
    Ratio,
    Score,
    Verification,
)
from tracelens.schemes import rules, score
from tracelens.schemes.score import Facts

RULES = rules.load()
STEP = 10_000_000
PLANS = {
    "event-interval": (Edit("event-sync", ("s1",)), Edit("defer-read", ("s2",), interval=10)),
    "interval-sync": (Edit("interval-sync", ("s1",), interval=10),),
    "more-streams": (Edit("async-copy"), Edit("prefetch", depth=1)),
    "pinned-copy": (Edit("async-copy"),),
    "event-sync": "the loop waits for events already",
    "full-pipeline": "the loop copies no batch to the GPU",
}


def estimate(gain: float, noise: float = 1.0) -> Estimate:
    """A gain in percent of speed with plus or minus `noise` percent of the step around it."""
    step, spread = round(STEP / (1 + gain / 100)), round(STEP * noise / 100)
    return Estimate(STEP, step, step - spread, step + spread, "host", "unprofiled", "replayed")


def patch(*tiers: str, changed: int = 2, declined: int = 0, edit: str = "event-sync") -> Patch:
    """A patch with one hunk per tier in one function that changes `changed` lines."""
    before = b"".join(b"line %d\n" % n for n in range(1000))
    after = before.replace(b"line 5\n", b"".join(b"new %d\n" % n for n in range(changed - 1)), 1)
    where = Location("train.py", 5, "main")
    hunks = tuple(Hunk(f"h{n}", edit, tier, where, "why", "because") for n, tier in enumerate(tiers))
    missing = tuple(Declined(edit, where, "the loop is generated", "write it") for _ in range(declined))
    files = (FilePatch(Path("train.py"), before, after),) if hunks else ()
    return Patch(Path(), files, hunks, missing, "")


def trial(scheme: str, ratio: float, outcome: str = "faster", equal: bool | None = True) -> Verification:
    measured = Ratio(ratio, ratio - 0.01, ratio + 0.01)
    return Verification(scheme, outcome, equal, measured, STEP, round(STEP * ratio), None, "")


def judged(**facts):
    schemes = score.judge(RULES, Facts(step_ns=STEP, plans=PLANS, **facts))
    return {scheme.id: scheme for scheme in schemes}


def test_without_evidence_there_is_the_prior_beside_and_nothing_else():
    scheme = judged()["event-interval"]
    assert scheme.prior["performance"] == 8 and (scheme.prior_mean, scheme.prior_total) == (9.0, 8.95)
    assert scheme.estimate is None and scheme.applicable
    assert (scheme.scores, scheme.total, scheme.rank) == ({}, None, None)


def test_performance_is_the_share_of_what_the_best_candidate_saves():
    half, whole = 100 / 0.9 - 100, 25.0  # steps of 9.0 and 8.0 ms: 1 and 2 ms of 10 are saved
    schemes = judged(estimates={"event-interval": estimate(whole), "interval-sync": estimate(half)})
    assert schemes["event-interval"].scores["performance"] == Score(10, "replayed")
    assert schemes["interval-sync"].scores["performance"] == Score(5, "replayed")
    assert schemes["event-interval"].reasons[0].startswith("gain: +25 %")


def test_a_trial_overrules_the_estimate():
    scheme = judged(estimates={"event-interval": estimate(12.5)}, verifications=(trial("event-interval", 1 / 1.04),))
    measured = scheme["event-interval"]
    assert measured.scores["performance"].evidence == "measured"
    assert measured.scores["performance"].score == 10  # the only candidate
    assert measured.scores["risk"] == Score(10, "measured")
    assert measured.estimate.evidence == "measured" and measured.estimate.step_ns == round(STEP / 1.04)


@pytest.mark.parametrize("outcome", ["slower", "no change", "different numbers"])
def test_a_trial_without_success_rejects(outcome):
    trials = (trial("event-interval", 1.02, outcome, outcome != "different numbers"),)
    scheme = judged(estimates={"event-interval": estimate(50)}, verifications=trials)["event-interval"]
    assert not scheme.applicable and scheme.rank is None
    assert scheme.reasons[0] == f"measured by a trial: {outcome} (step time x 1.020)"


def undecided(scheme: str, ratio: float, low: float, high: float) -> Verification:
    return replace(trial(scheme, ratio, "inconclusive"), ratio=Ratio(ratio, low, high))


def test_what_a_trial_measured_is_the_number_also_where_it_decided_nothing() -> None:
    """One number for one thing: the prediction is graded beside it, and does not take its place."""
    wide = (undecided("event-interval", 1.1, 0.93, 1.3),)
    scheme = judged(estimates={"event-interval": estimate(0)}, verifications=wide)["event-interval"]
    assert (scheme.estimate.evidence, scheme.estimate.step_ns) == ("measured", round(STEP * 1.1))
    assert scheme.reasons[0] == "undecided: −9 % (−23 to +8 %, measured); only a longer measurement can tell"
    assert not scheme.applicable


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        # half of the range is 4.5 %, three times its root of 5 pairs narrower than 3 %: 5 · (4.5 / 3)² = 11.25
        ((math.exp(-0.045), math.exp(0.045)), "about 12 pairs like these 5 can tell"),
        ((math.exp(-0.3), math.exp(0.3)), "only more --steps on a quieter machine can tell"),
    ],
)
def test_what_is_undecided_says_how_many_pairs_would_tell(ends: tuple[float, float], told: str) -> None:
    pairs = [{"original_us": 6000.0, "patched_us": 6000.0}] * 5
    wide = replace(undecided("event-interval", 1.0, *ends), details={"times": {"pairs": pairs}})
    scheme = judged(estimates={"event-interval": estimate(0)}, verifications=(wide,))["event-interval"]
    assert scheme.reasons[0].endswith(f"measured); {told}")


def test_an_undecided_trial_of_what_was_predicted_to_pay_asks_for_a_longer_one() -> None:
    wide = (undecided("event-interval", 0.95, 0.85, 1.06),)
    scheme = judged(estimates={"event-interval": estimate(10)}, verifications=wide)["event-interval"]
    assert scheme.reasons[0].startswith("not sure: +5 % (−6 to +18 %, measured); only a longer measurement")
    narrow = (undecided("event-interval", 1.0, 0.99, 1.01),)
    none = judged(estimates={"event-interval": estimate(0)}, verifications=narrow)["event-interval"]
    assert none.reasons[0] == "no gain: +0 % (−1 to +1 %, measured) is within noise of zero"


def test_a_trial_that_names_no_number_leaves_the_prediction() -> None:
    scattered = (undecided("event-interval", 1.0, 0.2, 5.0),)
    scheme = judged(estimates={"event-interval": estimate(10)}, verifications=scattered)["event-interval"]
    assert scheme.applicable and scheme.estimate.evidence == "replayed"
    older = (trial("event-interval", 1 / 1.04), *scattered, undecided("event-interval", 1.1, 0.9, 1.3))
    decided = judged(estimates={"event-interval": estimate(10)}, verifications=older)["event-interval"]
    assert decided.estimate.step_ns == round(STEP / 1.04), "a verdict counts for more than a later trial without one"


@pytest.mark.parametrize(
    ("gain", "noise", "words"),
    [
        (0.0, 1.0, "within noise of zero"),
        (3.0, 4.0, "within noise of zero"),
        (1.5, 0.1, "below the 2 %"),
        (-8.0, 1.0, "slower: −8 %"),
        (-0.5, 1.0, "within noise of zero"),
    ],
)
def test_no_gain_rejects_with_its_number(gain, noise, words):
    scheme = judged(estimates={"interval-sync": estimate(gain, noise)})["interval-sync"]
    assert not scheme.applicable and words in scheme.reasons[0] and "%" in scheme.reasons[0]


def test_a_gain_outside_the_noise_is_accepted():
    assert judged(estimates={"interval-sync": estimate(4.0, 2.0)})["interval-sync"].applicable


def test_a_gain_whose_low_end_is_no_change_is_not_promised() -> None:
    scheme = judged(estimates={"interval-sync": estimate(3.0, 2.5)})["interval-sync"]
    assert not scheme.applicable
    assert "verify would see no change" in scheme.reasons[0]


def test_a_rejected_scheme_never_ranks_before_a_paying_one():
    schemes = judged(
        estimates={"interval-sync": estimate(0.1), "more-streams": estimate(5), "pinned-copy": estimate(0)}
    )
    assert schemes["interval-sync"].rank is None
    assert schemes["more-streams"].rank == 1


def test_schemes_that_do_not_fit_say_why():
    scheme = judged()["event-sync"]
    assert not scheme.applicable and scheme.edits == () and scheme.reasons == (PLANS["event-sync"],)


def test_edits_that_were_left_out_are_named():
    reasons = judged(estimates={"event-interval": estimate(10)})["event-interval"].reasons
    assert "without interval-sync: done already, nothing to act on, or no gain on this run" in reasons


def test_equal_estimates_are_decided_by_the_weighted_total_of_their_patches():
    same = {"event-interval": estimate(10), "interval-sync": estimate(10)}
    sizes = {"event-interval": patch("safe", changed=3), "interval-sync": patch("safe", changed=90)}
    schemes = judged(estimates=same, patches=sizes)
    assert schemes["event-interval"].total > schemes["interval-sync"].total
    assert [schemes["event-interval"].rank, schemes["interval-sync"].rank] == [1, 2]


def test_schemes_without_an_estimate_have_no_rank():
    schemes = judged(
        estimates={"more-streams": estimate(3), "event-interval": Abstention("replay", "no steps", "mark steps")}
    )
    assert schemes["more-streams"].rank == 1
    assert "no estimate: no steps; mark steps" in schemes["event-interval"].reasons


# ------------------------------------------------------------------------------------------------ the other criteria


def test_extra_batches_are_held_against_free_memory():
    facts = {"estimates": {"more-streams": estimate(10)}, "free_bytes": 1000}
    tenth = judged(batch_bytes=100, **facts)["more-streams"]
    assert tenth.scores["memory"] == Score(8, "measured")
    too_much = judged(batch_bytes=2000, **facts)["more-streams"]
    assert not too_much.applicable and "more batch needs" in too_much.reasons[0]


def test_unknown_memory_has_no_score_and_no_extra_batch_needs_none():
    schemes = judged(batch_bytes=100, patches={"event-interval": patch("safe")})
    assert "memory" not in schemes["more-streams"].scores
    assert schemes["event-interval"].scores["memory"] == Score(10, "patch")


def test_a_safe_patch_of_few_lines_is_easy():
    scores = judged(patches={"event-interval": patch("safe", "safe")})["event-interval"].scores
    assert scores["difficulty"] == Score(10, "patch")
    assert scores["complexity"] == Score(9.98, "patch")  # 2 lines on the way from 10 (none) to 9 (100 lines)
    assert scores["maintainability"] == Score(10, "patch")
    assert scores["risk"] == Score(9, "patch")


def test_hunks_that_need_review_cost_difficulty_and_risk():
    scores = judged(patches={"event-interval": patch("safe", "unsafe", declined=1)})["event-interval"].scores
    assert scores["difficulty"].score == 7  # one unsafe hunk and one declined place: 3 places
    assert scores["risk"].score == 5.5  # two hunks that are not proven


def test_a_patch_that_cannot_be_made_tells_only_how_hard_it_is():
    scheme = judged(patches={"event-interval": patch(declined=4)})["event-interval"]
    assert scheme.scores["difficulty"] == Score(3, "patch")
    assert "complexity" not in scheme.scores
    assert "4 places are left to do by hand: the loop is generated" in scheme.reasons


def test_a_file_that_the_patch_creates_is_read_by_its_owner_too():
    helpers = FilePatch(Path("helper.py"), None, b"def wait(): ...\n" * 98)
    change = patch("safe")  # 2 lines; with the helpers 100
    change = replace(change, files=(*change.files, helpers))
    assert judged(patches={"event-interval": change})["event-interval"].scores["complexity"].score == 9


def test_a_missing_criterion_does_not_inflate_a_total():
    """Scored on two criteria, pinned-copy once beat the same patch scored on six."""
    known = {"event-interval": patch("safe", changed=90), "more-streams": patch("safe", "unsafe", edit="async-copy")}
    estimates = dict.fromkeys(("event-interval", "more-streams", "pinned-copy"), estimate(15))
    schemes = judged(estimates=estimates, patches=known)
    shared = {"performance", "memory"}  # all that is known of pinned-copy, which has no patch here
    assert set(schemes["pinned-copy"].scores) == shared
    for name in ("event-interval", "pinned-copy"):
        assert schemes[name].total == 10.0  # 30 x 10 + 10 x 10 of 40


def test_totals_can_be_checked_by_hand():
    scheme = judged(estimates={"interval-sync": estimate(4)}, patches={"interval-sync": patch("safe", changed=100)})
    scores = {name: score.score for name, score in scheme["interval-sync"].scores.items()}
    assert scores == {
        "performance": 10,
        "difficulty": 10,
        "complexity": 9,
        "memory": 10,
        "maintainability": 10,
        "risk": 9,
    }
    assert scheme["interval-sync"].total == pytest.approx(0.3 * 10 + 0.25 * 10 + 0.15 * 9 + 1 + 1.5 + 0.05 * 9)


def test_a_trial_with_another_interval_is_no_evidence_for_this_one():
    ten = replace(trial("event-interval", 0.8), details={"interval": 10})
    pinned = replace(trial("pinned-copy", 0.8), details={"interval": 10})
    assert score.comparable((ten, pinned), PLANS, 10) == (ten, pinned)
    plans = {**PLANS, "event-interval": (Edit("defer-read", ("s2",), interval=5),)}
    assert score.comparable((ten, pinned), plans, 5) == (pinned,)


def test_a_trial_on_another_device_is_no_evidence_for_the_recorded_one():
    here = replace(trial("event-interval", 0.8), details={"environment": {"device": "NVIDIA H200"}})
    laptop = replace(trial("event-interval", 0.8), details={"environment": {"device": "cpu"}})
    unknown = trial("pinned-copy", 0.8)
    found = score.comparable((here, laptop, unknown), PLANS, 10, "NVIDIA H200")
    assert found == (here, unknown)
    assert score.comparable((here, laptop), PLANS, 10) == (here, laptop)
    (aside,) = score.set_aside((here, laptop, unknown), PLANS, 10, "NVIDIA H200")
    assert "on cpu" in aside.missing and "NVIDIA H200" in aside.missing


def test_memory_says_patch_only_where_there_is_one():
    replayed = {"pinned-copy": estimate(10)}
    assert judged(estimates=replayed)["pinned-copy"].scores["memory"] == Score(10, "replayed")
    made = {"pinned-copy": patch("safe", edit="async-copy")}
    assert judged(estimates=replayed, patches=made)["pinned-copy"].scores["memory"] == Score(10, "patch")
    assert "memory" not in judged()["pinned-copy"].scores
