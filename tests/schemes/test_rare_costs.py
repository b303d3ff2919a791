"""What is said of a cost that comes in some steps only, and when it goes before what each step loses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracelens.model import Estimate, Location, Owner, Owners, Scheme, SlowSteps
from tracelens.schemes import rare_costs
from tracelens.schemes.facts import Facts

MS = 1_000_000
SLOW = SlowSteps(17, 177, 10, 9_190_000, 12_410_000, 34 * MS, 3_220_000, 3_100_000, 3_640_000, 0.9)
SAVE = Owner(
    "host_line", 0, (Location("train.py", 148),), "torch.save",
    recoverable_ns=2_900_000, low_ns=2_800_000, high_ns=3_300_000, evidence="measured", occurrences=17,
)  # fmt: skip
GPU, LAUNCH = Owner("gpu", 7 * MS), Owner("launch", 2 * MS, (Location("train.py", 52),))
WAIT = Owner("wait", MS, (Location("train.py", 60),), "Tensor.item", "s1", recoverable_ns=MS, low_ns=900_000)
ESTIMATE = Estimate(9_190_000, 8_500_000, 8_400_000, 8_700_000, "stream", "unprofiled", "replayed")
SCHEME = Scheme("event-interval", "", (), None, {}, None, None, 9.0, 1, ESTIMATE, True, ())


def owners(*each: Owner, slow: SlowSteps = SLOW) -> Owners:
    return Owners(sum(owner.owned_ns for owner in each), each, slow=slow)


def facts(*each: Owner, slow: SlowSteps = SLOW) -> Facts:
    return Facts(step_ns=9_190_000, plans={}, owners=owners(*each, slow=slow), gpu_busy_share=0.78)


def test_a_checkpoint_every_tenth_step_is_the_verdict_with_line_time_and_mean_share() -> None:
    known = facts(GPU, LAUNCH, WAIT, SAVE)
    assert rare_costs.headline(known) == "torch.save() takes 30.6 ms at every 10th step"
    assert rare_costs.headline_kind(known) == "loss"
    assert rare_costs.nothing((), known) == (
        "train.py:148 (torch.save) takes 30.6 ms at every 10th step: 2.9 ms per step on average, 23 % of the training "
        "time; at every 100th step it would be 0.3 ms per step."
    )
    assert rare_costs.largest_owner(known) is None, "no lever of an ordinary step answers it"


def test_an_ordinary_step_that_loses_more_goes_first() -> None:
    sync = replace(WAIT, owned_ns=4 * MS, recoverable_ns=4 * MS, low_ns=3 * MS)
    known = facts(GPU, sync, SAVE)
    assert rare_costs.headline(known).startswith("A wait blocks") or "wait" in rare_costs.headline(known)
    assert "10th" not in rare_costs.nothing((), known)
    assert rare_costs.clause(known.owners).startswith("train.py:148 (torch.save) takes"), "it is said all the same"


def test_what_a_scheme_saves_is_said_of_an_ordinary_step() -> None:
    said = rare_costs.recommended(SCHEME, None, facts(GPU, WAIT, SAVE), "")
    assert said.startswith("train.py:148 (torch.save) takes 30.6 ms at every 10th step: 2.9 ms per step on average")
    assert "in an ordinary step" in said and len(said) <= 240


@pytest.mark.parametrize("loss", [LAUNCH, Owner("host_line", 2 * MS, reason="no attributed step runs the same")])
def test_time_that_nobody_can_give_back_does_not_go_before_a_line_that_can(loss: Owner) -> None:
    assert "torch.save" in rare_costs.headline(facts(GPU, loss, SAVE))


def test_without_a_line_it_is_told_with_what_to_record() -> None:
    unseen = replace(SLOW, explained=0.0, reason="no such step was looked at; record again with --steps 20")
    known = facts(GPU, LAUNCH, slow=unseen)
    assert rare_costs.headline(known) == "Every 10th step takes 43.19 ms, the others 9.19"
    assert rare_costs.nothing((), known) == (
        "Every 10th step takes 43.19 ms and the others 9.19: 3.2 ms per step on average, 26 % of the training time; "
        "no such step was looked at; record again with --steps 20."
    )


def test_at_no_period_its_share_is_told() -> None:
    known = facts(GPU, LAUNCH, SAVE, slow=replace(SLOW, every=None, seen=12, steps=168))
    assert rare_costs.headline(known) == "torch.save() takes 30.6 ms at one of 14 steps"


def test_where_no_step_is_slow_nothing_is_said() -> None:
    known = Facts(step_ns=9 * MS, plans={}, owners=Owners(9 * MS, (GPU, LAUNCH)), gpu_busy_share=0.78)
    assert rare_costs.clause(known.owners) == ""
    assert "every" in rare_costs.headline(known) and "th step" not in rare_costs.headline(known)
