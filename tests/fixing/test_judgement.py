"""What becomes of a change: from what was measured of it, and from what `try` found of its levers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import report_cases
from tracelens.fixing import choice
from tracelens.fixing.judgement import Standing, judge
from tracelens.model import (
    Abstention,
    Declined,
    FilePatch,
    Hunk,
    Lever,
    LeverNumbers,
    Location,
    Outcome,
    Owner,
    OwnerKind,
    Owners,
    Patch,
    PlannedDiagnosis,
    Ratio,
    Speedup,
    Verification,
)
from tracelens.report import fix_card
from tracelens.schemes import rules
from tracelens.verify.lever_store import LeverRecord
from tracelens.verify.lever_trial import LeverMeasurement, LeverTrial

HUNK = Hunk("TL101", "defer-read", "safe", Location("train.py", 3), "read later", "")
UNPROVED = replace(HUNK, tier="checked", unproved="whether finalizers depend on it")
UNSAFE = replace(HUNK, edit="thin-logs", tier="unsafe")


def patch(*hunks: Hunk) -> Patch:
    return Patch(Path("/p"), (FilePatch(Path("/p/train.py"), b"a", b"b"),), hunks, (), "")


def trial(outcome: Outcome, equal: bool | None = True) -> Verification:
    ratio = Ratio(0.5, 0.4, 0.625)
    return Verification("x", outcome, equal, ratio, 20_000_000, 10_000_000, None, f"said: {outcome}", {})


@pytest.mark.parametrize(
    ("outcome", "equal", "hunk", "standing"),
    [
        ("faster", True, HUNK, "proved"),
        ("faster", True, replace(UNPROVED, checked="equal over 200 steps"), "proved"),
        ("faster", True, UNPROVED, "undecided"),
        ("faster", None, HUNK, "undecided"),
        ("faster", False, UNSAFE, "other"),
        ("faster", True, UNSAFE, "other"),
        ("no change", True, HUNK, "nothing"),
        ("slower", True, HUNK, "refused"),
        ("different numbers", False, HUNK, "refused"),
        ("failed", None, HUNK, "refused"),
        ("inconclusive", True, HUNK, "undecided"),
    ],
)
def test_only_what_is_faster_with_the_same_results_is_proved(
    outcome: Outcome, equal: bool | None, hunk: Hunk, standing: Standing
) -> None:
    assert judge(trial(outcome, equal), patch(hunk)).standing == standing


def measured(name: str, *gains: float, numbers: LeverNumbers = "same") -> LeverMeasurement:
    pairs = tuple((gain * 10.0, 10.0) for gain in gains)
    middle = sum(gains) / len(gains)
    speedup = Speedup(middle, min(gains) * 0.99, max(gains) * 1.01)
    return LeverMeasurement(LeverTrial(name), "measured", None, pairs, speedup, numbers)


def test_the_fastest_with_the_same_results_is_taken_and_the_best_together_before_it() -> None:
    levers = (measured("a", 1.5, 1.5), measured("b", 2.0, 2.0), measured("c", 9.0, numbers="inside_seed_band"))
    both = replace(measured("a+b", 2.5), trial=LeverTrial("a+b", members=("a", "b")))
    asked = ("a", "b", "c")
    assert choice.best_of(LeverRecord(levers), asked) == ("b",)
    assert choice.best_of(LeverRecord(levers, both), asked) == ("a", "b")
    assert choice.best_of(LeverRecord(levers, both), ("a", "c")) == ("a",), "b is none that a patch writes"
    assert choice.best_of(LeverRecord(levers, replace(both, numbers="outside_seed_band")), asked) == ("b",)
    assert choice.best_of(LeverRecord((levers[2],)), asked) == ()


def test_no_gain_is_an_answer_only_where_it_was_measured_well_enough() -> None:
    assert choice.settled(measured("slower", 0.9))
    assert choice.settled(measured("the same", 1.0, 1.001, 0.999, 1.002))
    assert not choice.settled(measured("scattered", 0.7, 1.6, 1.1))
    assert not choice.settled(LeverMeasurement(LeverTrial("not reached"), "not_reached"))
    assert choice.settled(LeverMeasurement(LeverTrial("failed"), "failed", "it ended"))


def test_the_card_says_step_gain_range_and_results() -> None:
    said = "Faster: 20.0 → 10.0 ms per step, +100 % (95 % sure: +60 to +150 %). Same results, bit for bit."
    assert fix_card.measured(trial("faster")) == said
    assert fix_card.measured(trial("failed")) == "said: failed"
    scattered = replace(trial("slower"), ratio=Ratio(2.5, 1.1, 9.0))
    assert fix_card.measured(scattered) == "said: slower", "a range that says little is not shown as a number"
    beyond_doubt = replace(trial("faster"), ratio=Ratio(0.1, 0.02, 0.5), patched_ns=2_000_000)
    assert fix_card.measured(beyond_doubt).startswith(
        "Faster: 20.0 → 2.0 ms per step, +900 % (95 % sure: +100 to +4900 %)"
    )


def held_by(kind: OwnerKind, *remedies: str) -> PlannedDiagnosis:
    """A loop whose time one owner holds, with levers that nobody has tried."""
    owner = Owner(kind, 900, locations=(Location("train.py", 7),), remedies=remedies)
    owners = Owners(1000, (owner, Owner("unknown", 100, reason="not recorded")))
    levers = tuple(Lever(name, "host", "not_tried", name, f"write {name}", command=f"try {name}") for name in remedies)
    return replace(report_cases.recommended(), owners=owners, levers=levers, abstentions=(), gpu_busy_share=0.3)


def test_what_no_patch_writes_is_told_by_hand_and_a_busy_gpu_is_fine() -> None:
    levers = rules.load().levers
    by_hand = choice.without_change(held_by("dataloader", "bf16", "cached-samples"), levers)
    assert (by_hand.fine, by_hand.try_next) == (False, "cached-samples")
    assert by_hand.reason == "No patch is made for Keep decoded samples. By hand: train.py:7: write cached-samples."
    small = held_by("dataloader", "cached-samples")
    beside = replace(small, owners=Owners(9000, (*small.owners.owners, Owner("backward", 8000))))
    assert "By hand" not in choice.without_change(beside, levers).reason, "another owner takes nearly all of the step"
    obstacle = Declined("rare-call", Location("train.py", 7), "the loop is no `for` loop", "put it below a condition")
    declining = held_by("host_line", "gc-collect")
    place = replace(declining.levers[0], locations=(Location("train.py", 7),))
    left_out = replace(place, id="line=train.py:7")
    patches = {"gc-collect": replace(patch(), files=(), declined=(obstacle,))}
    told = choice.without_change(replace(declining, levers=(place, left_out), patches=patches), levers)
    assert (
        "Collect every 100th batch (the loop is no `for` loop). By hand: train.py:7: write gc-collect." in told.reason
    )
    assert told.try_next == "line=train.py:7", "its patch changes nothing: what can be tried is the line left out"
    launching = choice.without_change(held_by("launch", "compile"), levers)
    assert (launching.fine, launching.try_next) == (False, "compile"), "compile changes numbers: measured, not written"
    both = held_by("launch", "batch", "compile")
    listed = choice.without_change(replace(both, levers=both.levers[::-1]), levers)
    assert listed.try_next == "compile", "the levers have their order: what changes the training comes later"
    launches = held_by("launch", "compile", "fused", "batch")
    assert choice.rounding_untried(launches, levers) == ("compile", "fused"), "a larger batch is another training"
    assert choice.rounding_untried(held_by("launch", "batch", "compile"), levers) == (), "it comes first in this list"
    working = replace(held_by("gpu", "bf16", "compile", "tf32"), breakdown=None, gpu_busy_share=0.97)
    families = tuple(replace(one, family="compile" if one.id == "compile" else "precision") for one in working.levers)
    assert choice.rounding_untried(replace(working, levers=families), levers) == ("bf16", "compile")
    backward = replace(held_by("backward", "set-to-none"), breakdown=None)
    assert choice.without_change(replace(backward, gpu_busy_share=0.97), levers).fine
    assert choice.without_change(replace(backward, gpu_busy_share=None), levers).fine, "the work itself"
    line = choice.without_change(held_by("host_line", "omp-threads"), levers)
    assert line.try_next == "omp-threads" and "By hand" not in line.reason, "it is about no line in particular"
    unknown = replace(backward, owners=Owners(1000, (Owner("unknown", 1000, reason="not recorded"),)))
    assert not choice.without_change(unknown, levers).fine
    changed = Abstention("patch", "the training script train.py is not there", "give it with --script")
    missing = choice.without_change(replace(backward, abstentions=(changed,)), levers)
    assert missing.reason == "No patch can be made: the training script train.py is not there. give it with --script."


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("gc-collect", "empty-cache", "workers=4"), ("gc-collect", "empty-cache")),
        (("gc-collect", "event-sync", "flush"), ("gc-collect", "flush")),
        (("event-sync", "gc-collect", "empty-cache"), ("event-sync",)),
        (("workers=4",), ("workers=4",)),
    ],
)
def test_calls_that_are_made_rarer_are_one_change_where_there_is_no_time_to_try_each(
    names: tuple[str, ...], first: tuple[str, ...]
) -> None:
    assert choice.first_of(names, rules.load().levers) == first
