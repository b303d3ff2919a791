"""Which loss of a step a verdict is about, and what headline and verdict say of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracelens import units
from tracelens.model import NEW_ITERATOR, Breakdown, Edit, Estimate, Location, Owner, Owners, Scheme, Stall
from tracelens.schemes import loss_text, verdict
from tracelens.schemes.facts import Facts
from tracelens.schemes.loss import Loss, Period, StepFacts, largest

MS = 1_000_000
COLLECT = Owner(
    "host_line",
    139 * MS,
    (Location("train.py", 88),),
    "gc.collect",
    recoverable_ns=138 * MS,
    low_ns=130 * MS,
    high_ns=146 * MS,
    evidence="replayed",
)
SYNC = Owner("wait", 1 * MS, (Location("train.py", 83),), "cudaDeviceSynchronize", "s3", None, 30_000)
READ = Owner("wait", 0, (Location("train.py", 84),), "Tensor.item", "s4", None, 10_000)
LOADER = Owner("dataloader", 9 * MS, (Location("train.py", 75),), group="s4", recoverable_ns=8 * MS, low_ns=5 * MS)


def step(*owners: Owner) -> Owners:
    return Owners(sum(owner.owned_ns for owner in owners), owners)


def of_step(owners: Owners, busy: float, together_ns: int | None = None) -> Loss | None:
    return largest(owners, StepFacts(owners.wall_ns, busy, together_ns))


def kind(owners: Owners, busy: float) -> str | None:
    loss = of_step(owners, busy)
    return None if loss is None else loss.owner.kind


# ------------------------------------------------------------------------------------------------------- which it is


def test_a_line_that_fills_the_gaps_is_the_answer_and_launches_are_not() -> None:
    loss = of_step(step(COLLECT, Owner("launch", 8 * MS), Owner("gpu", 4 * MS)), 0.03)
    assert loss == Loss(COLLECT) and loss.returns


@pytest.mark.parametrize(
    ("owners", "busy", "expected"),
    [
        pytest.param(
            step(Owner("launch", 80), Owner("backward", 10), Owner("host_line", 10)), 0.1, "launch", id="many"
        ),
        pytest.param(
            step(Owner("launch", 20), Owner("backward", 70), Owner("gpu", 10)), 0.1, "backward", id="autograd"
        ),
        pytest.param(
            step(Owner("launch", 30), Owner("gpu", 70)), 0.85, "gpu", id="a GPU too busy to wait for launches"
        ),
        pytest.param(step(Owner("gpu", 60), Owner("host_line", 40)), 0.95, "gpu", id="a busy GPU"),
        pytest.param(step(Owner("gpu", 97), Owner("dataloader", 3)), 0.85, "gpu", id="next to nothing"),
        pytest.param(step(Owner("gpu", 30), Owner("communication", 70)), 0.95, "communication", id="collectives"),
        pytest.param(step(Owner("wait", 60), Owner("unknown", 40)), 0.1, "wait", id="waits without a replay"),
        pytest.param(
            step(Owner("dataloader", 30), Owner("launch", 40), Owner("gpu", 30)), 0.3, "dataloader", id="both"
        ),
        pytest.param(step(Owner("unknown", 100)), 0.0, None, id="nothing is known"),
    ],
)
def test_the_largest_loss(owners: Owners, busy: float, expected: str | None) -> None:
    assert kind(owners, busy) == expected


@pytest.mark.parametrize(
    ("recoverable", "low", "busy", "expected"),
    [
        pytest.param(3 * MS, 2 * MS, 0.95, "copy", id="more than runs vary by, for certain"),
        pytest.param(3 * MS, 0, 0.95, "gpu", id="perhaps nothing"),
        pytest.param(3 * MS, None, 0.95, "gpu", id="without a range, little"),
        pytest.param(6 * MS, None, 0.95, "copy", id="without a range, much"),
        pytest.param(1 * MS, 1 * MS, 0.95, "gpu", id="less than runs vary by"),
    ],
)
def test_beside_a_busy_gpu_only_what_gives_something_back_is_a_loss(
    recoverable: int, low: int | None, busy: float, expected: str
) -> None:
    copy = Owner("copy", 2 * MS, (Location("a.py", 1),), recoverable_ns=recoverable, low_ns=low)
    assert kind(step(copy, Owner("gpu", 98 * MS)), busy) == expected


@pytest.mark.parametrize(("launches", "said"), [(640.0, 640.0), (12.0, None), (None, None)])
def test_many_launches_are_counted_where_they_are_the_loss(launches: float | None, said: float | None) -> None:
    launching = step(Owner("launch", 80), Owner("gpu", 20))
    loss = of_step(replace(launching, launches_per_step=launches), 0.1)
    assert loss is not None and (loss.owner.kind, loss.launches) == ("launch", said)
    backward = replace(step(Owner("launch", 20), Owner("backward", 70), Owner("gpu", 10)), launches_per_step=launches)
    loss = of_step(backward, 0.1)
    assert loss is not None and (loss.owner.kind, loss.launches) == ("backward", None)


def test_waits_that_pay_only_together_are_one_loss_with_both_lines() -> None:
    owners = step(SYNC, READ, Owner("gpu", 15 * MS), Owner("unknown", 9 * MS))
    loss = of_step(owners, 0.6, together_ns=8 * MS)
    assert loss is not None and (loss.count, loss.ns) == (2, 8 * MS)
    assert [place.line for place in loss.owner.locations] == [83, 84]
    alone = of_step(owners, 0.6, together_ns=30_000)
    assert alone is not None and alone.count == 1


def test_what_may_give_nothing_back_is_said_by_what_it_owns() -> None:
    copy = Owner("copy", 9 * MS, callee="cudaMemcpyAsync", recoverable_ns=3 * MS, low_ns=-8 * MS, high_ns=14 * MS)
    loss = of_step(step(copy, Owner("gpu", 91 * MS)), 0.7)
    assert loss is not None and (loss.owner.kind, loss.returns, loss.ns) == ("copy", False, 9 * MS)


# A line that reads the norm of one gradient after the other, in a step of 25 ms of which launching leaves 11 ms idle.
NORMS = Owner(
    "wait", 1 * MS, (Location("train.py", 61),), "Tensor.item", "s5", recoverable_ns=4 * MS, low_ns=0, high_ns=6 * MS
)
ITS_LAUNCHES = Owner("launch", 3 * MS, (Location("train.py", 61), Location("train.py", 90)), of_one_line=True)
LAUNCHES = Owner("launch", 8 * MS, (Location("train.py", 61), Location("train.py", 55)))
"""Of the whole loop; most of them happen to be made at line 61."""
LAUNCHING = (LAUNCHES, ITS_LAUNCHES, Owner("backward", 5 * MS), Owner("gpu", 8 * MS))


def test_a_line_that_may_give_nothing_back_is_the_cause_and_promises_nothing() -> None:
    loss = of_step(step(NORMS, *LAUNCHING), 0.3)
    assert loss is not None and not loss.sure
    assert (loss.owner, loss.idle_ns) == (NORMS, 4 * MS), "its wait and its own launches, not those of the loop"
    period = Period(25 * MS, 25 * MS)
    assert loss_text.headline(loss, period) == "A line of Python leaves the GPU idle 4.0 of every 25.0 ms"
    said = "what a change there saves is not sure: 4.0 ms (0 to 6.0, predicted)"
    assert loss_text.sentence(loss, period) == (
        f"train.py:61 (Tensor.item) leaves the GPU idle 4.0 of every 25.0 ms; {said}"
    )
    assert loss_text.details(loss, period) == f"train.py:61: {said}"


def test_of_launches_that_several_lines_make_its_part_is_said_beside_what_it_may_give_back() -> None:
    shared = replace(LAUNCHES, line_shares=((Location("train.py", 61), 0.5), (Location("train.py", 55), 0.25)))
    loss = of_step(step(NORMS, shared, *LAUNCHING[1:]), 0.3)
    assert loss is not None and loss.idle_ns == 8 * MS, "and half of 8 ms"
    others = replace(NORMS, locations=(Location("train.py", 55),), owned_ns=0)
    assert kind(step(others, shared, *LAUNCHING[1:]), 0.3) == "launch", "launches by themselves make no line a cause"


@pytest.mark.parametrize(
    ("owner", "busy"),
    [
        pytest.param(replace(NORMS, recoverable_ns=MS), 0.3, id="4 % of the step, which may be nothing"),
        pytest.param(replace(NORMS, locations=()), 0.3, id="nobody knows its line"),
        pytest.param(replace(NORMS, low_ns=None, recoverable_ns=None), 0.3, id="not replayed"),
        pytest.param(replace(NORMS, locations=(Location("train.py", 70),), owned_ns=0), 0.3, id="the GPU never idled"),
    ],
)
def test_launch_bound_remains_where_no_line_sticks_out(owner: Owner, busy: float) -> None:
    assert kind(step(owner, *LAUNCHING), busy) == "launch"


PER_CROP = tuple(
    replace(
        ITS_LAUNCHES,
        owned_ns=1 * MS,
        locations=(Location("train.py", line),),
        recoverable_ns=MS,
        low_ns=0,
        high_ns=2 * MS,
    )
    for line in (61, 62)
)
CROPS = Owner(
    "host_line",
    2 * MS,
    tuple(one.locations[0] for one in PER_CROP),
    recoverable_ns=3 * MS,
    low_ns=0,
    high_ns=4 * MS,
    loop=(61, 62),
)
"""A loop over images, of which no line alone would be worth naming."""


def test_the_lines_of_a_loop_are_one_loss() -> None:
    owners = replace(step(*PER_CROP, *LAUNCHING), loops=(CROPS,))
    loss = of_step(owners, 0.3)
    assert loss is not None and (loss.owner, loss.sure, loss.idle_ns) == (CROPS, False, 2 * MS)
    period = Period(25 * MS, 25 * MS)
    assert loss_text.headline(loss, period) == "A loop in the step leaves the GPU idle 2.0 of every 25.0 ms"
    assert loss_text.sentence(loss, period) == (
        "train.py:61–62 (a loop) leaves the GPU idle 2.0 of every 25.0 ms; "
        "what a change there saves is not sure: 3.0 ms (0 to 4.0, predicted)"
    )
    facts = replace(loop(*PER_CROP, *LAUNCHING), stalls=(), gpu_busy_share=0.3)
    assert facts.owners is not None
    told = verdict.beside((), replace(facts, owners=replace(facts.owners, loops=(CROPS,))))
    assert told.endswith("What might help: one operation for all that the loop goes through.")


def test_a_line_that_gives_nearly_as_much_as_its_loop_is_named_itself() -> None:
    line = replace(PER_CROP[0], recoverable_ns=3 * MS, low_ns=0, high_ns=4 * MS)
    owners = replace(step(line, *LAUNCHING), loops=(CROPS,))
    loss = of_step(owners, 0.3)
    assert loss is not None and loss.owner == line


def test_of_two_causes_it_is_the_one_that_most_likely_gives_back_more() -> None:
    sure = Owner("host_line", 2 * MS, (Location("train.py", 70),), None, None, None, 3 * MS, 2 * MS, 4 * MS)
    loss = of_step(step(sure, NORMS, *LAUNCHING), 0.3)
    assert loss is not None and loss.owner == NORMS
    larger = replace(sure, recoverable_ns=4 * MS)
    assert of_step(step(NORMS, larger, *LAUNCHING), 0.3) == Loss(larger), "of equal ones the one that is sure"


def test_launches_for_one_tensor_after_the_other_are_no_limit_of_the_loop() -> None:
    launches = replace(ITS_LAUNCHES, recoverable_ns=3 * MS, low_ns=0, high_ns=4 * MS)
    facts = replace(
        loop(LAUNCHES, launches, Owner("backward", 6 * MS), Owner("gpu", 8 * MS)), stalls=(), gpu_busy_share=0.3
    )
    assert verdict.headline(facts) == "A line of Python leaves the GPU idle 3.0 of every 25.0 ms"
    assert verdict.nothing((), facts) == (
        "train.py:61 (a launch per tensor) leaves the GPU idle 3.0 of every 25.0 ms; "
        "what a change there saves is not sure: 3.0 ms (0 to 4.0, predicted)."
    )
    assert (
        verdict.beside((), facts) == "train.py:61: what a change there saves is not sure: 3.0 ms (0 to 4.0, predicted)."
    )


def test_an_optimizer_that_goes_tensor_by_tensor_is_no_limit_of_the_loop_either() -> None:
    slow = Owner(
        "optimizer", 6 * MS, (Location("train.py", 90),), "AdamW.step", None, None, 5 * MS, 3 * MS, 6 * MS, "replayed",
        "all tensors taken at once",
    )  # fmt: skip
    loss = of_step(step(slow, Owner("launch", 11 * MS), Owner("gpu", 8 * MS)), 0.3)
    assert loss is not None and loss_text.sentence(loss, Period(25 * MS, 25 * MS)) == (
        "The optimizer (train.py:90) leaves the GPU idle 6.0 of every 25.0 ms; "
        "with all tensors taken at once a step takes 20.0 ms (19.0 to 22.0, predicted)"
    )


def test_a_promise_stands_alone_where_its_range_is_narrow() -> None:
    """Within a quarter of its middle to either side, and at least half of it sure."""
    loss = Loss(replace(COLLECT, owned_ns=9 * MS, recoverable_ns=8 * MS, low_ns=3 * MS, high_ns=10 * MS))
    assert loss_text.sentence(loss, Period(25 * MS, 25 * MS)).endswith(
        "without it a step takes 17.0 ms (15.0 to 22.0, predicted)"
    )
    wide = Loss(replace(loss.owner, low_ns=6 * MS, high_ns=12 * MS))
    assert loss_text.sentence(wide, Period(25 * MS, 25 * MS)).endswith(
        "without it a step takes 17.0 ms (13.0 to 19.0, predicted)"
    )
    surer = Loss(replace(loss.owner, low_ns=6 * MS))
    assert loss_text.sentence(surer, Period(25 * MS, 25 * MS)).endswith("without it a step takes 17.0 ms (predicted)")


def test_an_iterator_for_each_batch_is_named_and_no_worker_is_offered() -> None:
    new = Owner(
        "dataloader", 9 * MS, (Location("train.py", 12),), NEW_ITERATOR, None, None, 8 * MS, 7 * MS, 9 * MS, "replayed",
        "an iterator that is kept",
    )  # fmt: skip
    period = Period(25 * MS, 25 * MS)
    assert loss_text.headline(Loss(new), period) == "A new loader iterator takes 9.0 ms of every 25.0 ms step"
    assert loss_text.sentence(Loss(new), period) == (
        "A new loader iterator (train.py:12) takes 9.0 ms of every 25.0 ms step; "
        "with an iterator that is kept a step takes 17.0 ms (predicted)"
    )
    unknown = replace(new, recoverable_ns=None, low_ns=None, high_ns=None, evidence=None, instead=None)
    facts = replace(loop(unknown, Owner("gpu", 16 * MS)), stalls=(), gpu_busy_share=0.5)
    assert "worker" not in verdict.nothing((), facts) + verdict.beside((), facts)
    assert "one DataLoader iterator for many batches" in verdict.nothing((), facts)
    assert "one DataLoader iterator for many batches" in verdict.beside((), facts)


# -------------------------------------------------------------------------------------------------------- its words

PERIOD = Period(151 * MS, 160 * MS)


@pytest.mark.parametrize(
    ("loss", "headline", "sentence"),
    [
        (
            Loss(COLLECT),
            "gc.collect() takes 131 ms of every 151 ms step",
            "train.py:88 (gc.collect) takes 131 ms of every 151 ms step; without it a step takes 13.0 ms (predicted)",
        ),
        (
            Loss(replace(COLLECT, recoverable_ns=None)),
            "gc.collect() takes 131 ms of every 151 ms step",
            "train.py:88 (gc.collect) takes 131 ms of every 151 ms step (87 % of the step)",
        ),
        (
            Loss(
                Owner("wait", 0, (Location("a.py", 3), Location("a.py", 4)), recoverable_ns=MS, evidence="replayed"), 2
            ),
            "Two waits cost 1.0 ms of every 151 ms step",
            "Two waits (a.py:3, 4) cost 1.0 ms of every 151 ms step; without them a step takes 150 ms (predicted)",
        ),
        (
            Loss(Owner("copy", 8 * MS)),
            "Copies that nothing hides take 7.5 ms of every 151 ms step",
            "Copies that nothing hides take 7.5 ms of every 151 ms step (5 % of the step)",
        ),
        (
            Loss(Owner("allocator", 144 * MS, callee="hipFree")),
            "hipFree takes 136 ms of every 151 ms step",
            "hipFree takes 136 ms of every 151 ms step (90 % of the step)",
        ),
        (
            Loss(Owner("dataloader", 8 * MS, (Location("data.py", 11),), recoverable_ns=MS, evidence="replayed")),
            "The DataLoader takes 7.5 ms of every 151 ms step",
            "The DataLoader (data.py:11) takes 7.5 ms of every 151 ms step; "
            "with enough workers a step takes 150 ms (predicted)",
        ),
        (
            Loss(Owner("launch", 80 * MS, (Location("model.py", 31),))),
            "Launching kernels leaves the GPU idle 75.5 of every 151 ms",
            "Launching kernels (most at model.py:31) leaves the GPU idle 75.5 of every 151 ms (50 % of the step)",
        ),
        (
            Loss(Owner("launch", 80 * MS, (Location("model.py", 31),)), launches=1240.0),
            "1,240 launches leave the GPU idle 75.5 of every 151 ms",
            "1,240 kernel launches per step (most at model.py:31) leave the GPU idle 75.5 of every 151 ms "
            "(50 % of the step)",
        ),
        (
            Loss(Owner("dataloader", 8 * MS, instead="8 workers instead of 2", recoverable_ns=MS, evidence="replayed")),
            "The DataLoader takes 7.5 ms of every 151 ms step",
            "The DataLoader takes 7.5 ms of every 151 ms step; "
            "with 8 workers instead of 2 a step takes 150 ms (predicted)",
        ),
        (
            Loss(Owner("host_line", 80 * MS, reason="the recording does not say which line ran")),
            "Python takes 75.5 ms of every 151 ms step",
            "Python between the launches takes 75.5 ms of every 151 ms step (50 % of the step)",
        ),
    ],
)
def test_a_loss_in_words(loss: Loss, headline: str, sentence: str) -> None:
    assert loss_text.headline(loss, PERIOD) == headline
    assert loss_text.sentence(loss, PERIOD) == sentence


def test_a_headline_keeps_to_sixty_characters() -> None:
    automatic = Owner("host_line", MS, (Location("a.py", 1),), "garbage collection (generation 2)")
    assert loss_text.headline(Loss(automatic), PERIOD) == "Garbage collection takes 0.9 ms of every 151 ms step"
    long = Owner("host_line", MS, (Location("a.py", 1),), "library.with_a_long.name_of_a_function_that_does_it_all")
    assert loss_text.headline(Loss(replace(long, recoverable_ns=MS)), PERIOD) == (
        "A line of Python takes 0.9 ms of every 151 ms step"
    )
    assert len(loss_text.headline(Loss(replace(COLLECT, callee="x" * 90)), Period(10**15, 10**15))) <= 60


def test_more_than_the_step_cannot_be_lost() -> None:
    loss = Loss(replace(COLLECT, owned_ns=0, recoverable_ns=160 * MS))
    assert loss_text.headline(loss, PERIOD) == "gc.collect() costs 151 ms of every 151 ms step"
    loss = Loss(replace(COLLECT, owned_ns=170 * MS))
    assert loss_text.headline(loss, PERIOD) == "gc.collect() takes 151 ms of every 151 ms step"


def test_a_headline_says_what_was_seen_and_the_rest_of_the_sentence_what_its_end_gives_back() -> None:
    """Blocked time is no saving: Python may wait for long beside a GPU that works, and for a short time before one
    that then idles."""
    wait = Owner("wait", 2 * MS, (Location("a.py", 3),), "Tensor.item", recoverable_ns=5 * MS, evidence="replayed")
    loss = Loss(wait, blocked_ns=9 * MS)
    assert loss_text.headline(loss, PERIOD) == "A wait blocks Python for 9.0 of every 151 ms"
    assert loss_text.sentence(loss, PERIOD).endswith("; without it a step takes 146 ms (predicted)")
    copies = Loss(Owner("copy", 0, (Location("a.py", 3), Location("a.py", 4))), 2, blocked_ns=9 * MS)
    assert loss_text.headline(copies, PERIOD) == "Two copies block Python for 9.0 of every 151 ms"


def test_a_gpu_that_copies_is_not_called_busy_as_if_it_computed() -> None:
    assert loss_text.gpu_headline(0.95, 0.04) == "GPU-bound: 95 % busy. Nothing to fix in the loop."
    assert loss_text.gpu_headline(0.95, 0.3) == "GPU-bound: kernels 65 %, copies 30 %"


@pytest.mark.parametrize(
    ("now", "then", "saved", "gain"),
    [(25.43, 16.88, 8.5, 25.4 / 16.9), (11.77, 4.243, 7.6, 11.77 / 4.243), (12.0, 0.36, 11.6, 12.0 / 0.36)],
)
def test_what_is_saved_and_gained_is_so_of_the_times_that_are_shown(
    now: float, then: float, saved: float, gain: float
) -> None:
    """Of a step that is shown with one or two digits the gain is that of the times as they are: it says too little."""
    assert units.saved_ns(now * MS, then * MS) == pytest.approx(saved * MS)
    assert units.told_speedup(now * MS, then * MS) == pytest.approx(gain)


def test_without_a_gpu_nothing_idles() -> None:
    backward = Loss(Owner("backward", 80 * MS))
    assert loss_text.headline(backward, PERIOD) == "The backward pass leaves the GPU idle 75.5 of every 151 ms"
    on_cpu = replace(PERIOD, has_gpu=False)
    assert loss_text.headline(backward, on_cpu) == "The backward pass takes 75.5 ms of every 151 ms step"


# ------------------------------------------------------------------------------------------------------ the verdict


def scheme(saves_ms: int) -> Scheme:
    estimate = Estimate(25 * MS, (25 - saves_ms) * MS, (24 - saves_ms) * MS, 24 * MS, "host", "unprofiled", "replayed")
    edits = (Edit("interval-sync", ("s3", "s4")),)
    return Scheme("interval-sync", "", edits, None, {}, None, None, None, 1, estimate, True, ())


def loop(*owners: Owner) -> Facts:
    stalls = tuple(
        Stall(owner.group or "", owner.callee or "", "device", 1.0, MS, 0, 0, "exposed", owner.locations[0])
        for owner in (SYNC, READ)
    )
    return Facts(step_ns=25 * MS, plans={}, owners=step(*owners), stalls=stalls, gpu_busy_share=0.6)


def test_of_two_owners_of_the_same_idle_time_the_one_with_a_remedy_is_the_headline() -> None:
    """The loader works in the training thread and the waits keep its work from running under the GPU's."""
    facts = loop(LOADER, SYNC, READ, Owner("gpu", 15 * MS))
    assert verdict.headline(facts, scheme(saves_ms=7)) == "Two waits block Python for 2.0 of every 25.0 ms"
    said = verdict.recommended(scheme(saves_ms=7), None, facts, "")
    assert said.startswith("train.py:83, 84: Wait every Nth for all work saves 7.0 ms of every 25.0 ms step")
    assert said.endswith("the DataLoader (train.py:75) takes part in the same idle time.")


def test_a_larger_loss_of_other_idle_time_goes_before_what_a_scheme_saves() -> None:
    facts = loop(replace(LOADER, group=None), SYNC, READ, Owner("gpu", 15 * MS))
    assert verdict.headline(facts, scheme(saves_ms=7)) == "The DataLoader takes 9.0 ms of every 25.0 ms step"
    said = verdict.recommended(scheme(saves_ms=7), None, facts, "")
    assert said.startswith("The DataLoader (train.py:75) takes 9.0 ms of every 25.0 ms step")
    assert "Wait every Nth for all work saves 7.0 ms" in said


def test_an_obstacle_to_some_patch_is_not_the_verdict_about_a_line() -> None:
    facts = loop(COLLECT, Owner("gpu", 4 * MS))
    assert verdict.nothing((), facts).startswith("train.py:88 (gc.collect) takes 24.3 ms of every 25.0 ms step")


def test_which_waits_pay_is_not_said_before_there_is_a_plan() -> None:
    """All waits of the loop give back 8 ms, the two that a change can end 7: not two headlines for one run."""
    parts = {"compute": 15 * MS, "communication_exposed": 0, "copy_exposed": MS, "idle_sync": MS}
    parts |= {"idle_dataloader": 8 * MS, "idle_host": 0, "idle_launch": 0, "idle_other": 0}
    facts = replace(loop(SYNC, READ, Owner("gpu", 15 * MS)), breakdown=Breakdown(25 * MS, parts))
    together = replace(facts, exposed_together_ns=8 * MS)
    assert verdict.headline(together) == "Two waits block Python for 2.0 of every 25.0 ms"
    assert verdict.headline_before_plan(together) == "The GPU is idle 36 % of each step"
    copying = replace(together, breakdown=Breakdown(25 * MS, {**parts, "copy_exposed": 9 * MS, "idle_dataloader": 0}))
    assert verdict.headline_before_plan(copying) == "The GPU is only copying 36 % of each step"
    alone = replace(facts, owners=step(COLLECT, Owner("gpu", 4 * MS)))
    assert verdict.headline_before_plan(alone) == verdict.headline(alone)


def test_what_a_headline_is_about_is_said_beside_it() -> None:
    """Nobody has to read the sentence for it, which another language words differently."""
    assert verdict.headline_kind(loop(SYNC, READ, Owner("gpu", 15 * MS))) == "loss"
    assert verdict.headline_kind(loop(Owner("gpu", 15 * MS))) == "gpu"
    assert verdict.headline_kind(replace(loop(Owner("gpu", 15 * MS)), owners=None)) == "unjudged"


def test_what_the_headline_leaves_out_is_where_how_much_and_what_helps() -> None:
    launching = replace(loop(Owner("gpu", 10 * MS), Owner("launch", 30 * MS)), gpu_busy_share=0.25)
    assert verdict.beside((), launching) == (
        "75 % of the step. What might help: CUDA graphs (torch.compile reduce-overhead), torch.compile, larger batches."
    )
    busy = replace(loop(Owner("gpu", 30 * MS), Owner("launch", 1 * MS)), gpu_busy_share=0.97)
    assert verdict.beside((), busy) == "What might help: bf16, torch.compile, cheaper kernels (by hand)."
    line = loop(replace(COLLECT, recoverable_ns=10 * MS, low_ns=9 * MS, high_ns=11 * MS), Owner("gpu", 15 * MS))
    assert verdict.beside((), line) == "train.py:88: without it a step takes 15.0 ms (predicted)."


def test_a_busy_gpu_is_told_that_nothing_is_to_be_fixed_with_what_would_help() -> None:
    facts = replace(loop(Owner("gpu", 30 * MS), Owner("launch", 1 * MS)), gpu_busy_share=0.97)
    assert verdict.headline(facts) == "GPU-bound: 97 % busy. Nothing to fix in the loop."
    assert verdict.nothing((), facts) == (
        "GPU-bound, GPU busy 97 %: nothing to fix in the loop; "
        "bf16, torch.compile, cheaper kernels (by hand) would help."
    )


def test_launch_bound_is_said_with_what_would_help() -> None:
    facts = replace(loop(Owner("gpu", 10 * MS), Owner("launch", 30 * MS)), gpu_busy_share=0.25)
    assert verdict.headline(facts) == "Launching kernels leaves the GPU idle 18.8 of every 25.0 ms"
    assert (
        "launch-bound, GPU busy 25 %; CUDA graphs (torch.compile reduce-overhead), torch.compile, larger"
        in verdict.nothing((), facts)
    )


def test_without_a_gpu_the_longest_line_is_named() -> None:
    owners = step(Owner("host_line", 6 * MS, (Location("train.py", 24),), "gc.collect"), Owner("optimizer", 2 * MS))
    facts = Facts(step_ns=8 * MS, plans={}, has_gpu=False, owners=owners)
    assert verdict.headline(facts) == "gc.collect() takes 6.00 ms of every 8.00 ms step"
    assert verdict.nothing((), facts) == (
        "No GPU work was recorded; "
        "on the CPU train.py:24 (gc.collect) takes 6.00 ms of every 8.00 ms step (75 % of the step)."
    )
    working = Owner("backward", 20 * MS, (Location("train.py", 23),), "backward")
    beside = replace(facts, owners=step(working, *owners.owners))
    assert verdict.headline(beside) == "Beside the training itself, gc.collect() takes 21 %", "it is not the largest"
    assert verdict.nothing((), replace(beside, step_ns=28 * MS)) == (
        "No GPU work was recorded; "
        "on the CPU beside the training itself, train.py:24 (gc.collect) takes 21 % (6.0 ms of 28.0 ms)."
    ), "the sentence says what the headline says"
    assert verdict.headline_kind(beside) == "loss"
    rest = replace(facts, owners=step(working, replace(owners.owners[0], callee="aten::linear")))
    assert verdict.headline(rest) == "The backward pass takes 6.15 ms of every 8.00 ms step"
    nobody = replace(facts, owners=step(Owner("host_line", MS, reason="no lines were recorded")))
    assert verdict.headline(nobody) == "Not judged: no GPU work was recorded"


def test_on_a_cpu_no_smaller_cost_is_named_as_if_it_were_the_largest() -> None:
    """The demo on a CPU: 0.35 ms of batches beside 1.2 ms in the optimizer."""
    forward = Owner("host_line", 30 * MS, (Location("train.py", 48),), "aten::linear")
    backward = Owner("backward", 20 * MS, (Location("train.py", 80),), "backward")
    optimizer = Owner("optimizer", 12 * MS, (Location("train.py", 81),), "AdamW.step")
    loader = Owner("dataloader", 3 * MS, (Location("train.py", 28),))
    facts = Facts(step_ns=65 * MS, plans={}, has_gpu=False, owners=step(forward, backward, optimizer, loader))
    assert verdict.headline(facts) == "The training's own work takes 62.0 ms of every 65.0 ms step"
    assert verdict.nothing((), facts) == (
        "No GPU work was recorded; "
        "on the CPU the training's own work takes 62.0 ms of every 65.0 ms step (95 % of the step)."
    )
    assert verdict.beside((), facts) == (
        "On the CPU, no GPU work was recorded: most of it at train.py:48, 80, 81. "
        "What might help: torch.compile, another number of CPU threads, a GPU."
    )
    slow = replace(facts, owners=step(replace(loader, owned_ns=15 * MS), forward, backward, optimizer))
    assert verdict.headline(slow) == "Beside the training itself, the DataLoader takes 19 %"
    slowest = replace(facts, owners=step(replace(loader, owned_ns=40 * MS), forward, backward, optimizer))
    assert verdict.headline(slowest) == "The DataLoader takes 25.5 ms of every 65.0 ms step"
