"""Scheme → Edits on one loop: which waits they act on, what is present already, and which part pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracelens.model import Abstention, Edit, Estimate, InventoryItem, Location, Stall
from tracelens.schemes import plan, rules

RULES = rules.load()


def stall(name: str, kind: str, line: int | None = 10, **changes) -> Stall:
    location = Location("train.py", line) if line else None
    base = Stall(name, "cudaAny", kind, 1.0, 1_000_000, 500_000, None, "unknown", location)
    return replace(base, **changes)


SYNC, READ, COPY = stall("s1", "device", 10), stall("s2", "d2h", 11), stall("s3", "h2d", 8)


def kinds(edits) -> list[str]:
    return [edit.kind for edit in edits]


def test_a_loop_that_waits_everywhere_gets_every_scheme():
    found = plan.edits(RULES, (SYNC, READ, COPY), (), 10)
    assert {name: kinds(edits) for name, edits in found.items()} == {
        "more-streams": ["async-copy", "prefetch"],
        "event-sync": ["event-sync", "defer-read"],
        "interval-sync": ["interval-sync", "defer-read"],
        "event-interval": ["event-sync", "interval-sync", "defer-read"],
        "full-pipeline": ["event-sync", "interval-sync", "defer-read", "async-copy", "prefetch"],
        "pinned-copy": ["async-copy"],
    }


def test_each_edit_acts_on_its_own_waits():
    edits = plan.edits(RULES, (SYNC, READ, COPY), (), 7)["full-pipeline"]
    assert {edit.kind: edit.stalls for edit in edits} == {
        "event-sync": ("s1",),
        "interval-sync": ("s1",),
        "defer-read": ("s2",),
        "async-copy": ("s3",),
        "prefetch": ("s3",),
    }
    by_kind = {edit.kind: edit for edit in edits}
    assert by_kind["interval-sync"].interval == by_kind["defer-read"].interval == 7
    assert by_kind["prefetch"].depth == 1
    assert by_kind["async-copy"].locations == (Location("train.py", 8),)


def test_scheme_two_reads_as_soon_as_the_event_has_completed():
    edits = plan.edits(RULES, (SYNC, READ), (), 10)["event-sync"]
    assert [edit.interval for edit in edits] == [1, 1]


def test_n_is_what_was_asked_then_what_the_loop_does_then_ten():
    existing = (InventoryItem("reads_every_k", True, "reads in steps 4, 9", 5),)
    assert plan.chosen_interval(existing, 3) == 3
    assert plan.chosen_interval(existing) == 5
    assert plan.chosen_interval((InventoryItem("reads_every_k", False, "reads in each step", 1),)) == 10
    assert plan.chosen_interval(()) == 10
    rarely = (InventoryItem("reads_every_k", True, "the script reads under a condition `% 99999999`", 99_999_999),)
    assert plan.chosen_interval(rarely) == 1_000


def test_a_wait_every_tenth_batch_is_no_wait_of_each_batch():
    spaced = replace(SYNC, calls_per_step=0.1)
    assert "neither synchronizes nor reads" in plan.edits(RULES, (spaced,), (), 10)["event-interval"]


def test_the_profilers_own_wait_is_not_acted_on():
    edge = replace(SYNC, verdict="window_edge")
    assert isinstance(plan.edits(RULES, (edge,), (), 10)["interval-sync"], str)


def test_a_value_that_steers_the_loop_is_not_deferred():
    steering = stall("s4", "d2h", 20, call="Tensor.nonzero")
    reason = plan.edits(RULES, (steering,), (), 10)["event-interval"]
    assert reason == "the value read at train.py:20 decides what the host does next: it cannot be read later"
    both = plan.edits(RULES, (steering, READ), (), 10)["event-interval"]
    assert [edit.stalls for edit in both] == [("s2",)]


def test_events_that_are_there_already_are_not_offered_again():
    found = plan.edits(RULES, (stall("s1", "event"),), (), 10)
    assert found["event-sync"] == "the loop waits for events already"
    assert kinds(found["interval-sync"]) == ["interval-sync"]


def test_copies_that_are_asynchronous_already_are_not_offered_again():
    items = (
        InventoryItem("host_copies", True, "12 MB per step"),
        InventoryItem("pinned_memory", True, "all copies"),
        InventoryItem("non_blocking_copies", True, "no copy waits"),
    )
    found = plan.edits(RULES, (SYNC,), items, 10)
    assert isinstance(found["pinned-copy"], str)
    assert kinds(found["more-streams"]) == ["prefetch"]
    prefetched = (*items, InventoryItem("copy_stream", True, "stream 20"))
    assert "already" in plan.edits(RULES, (SYNC,), prefetched, 10)["more-streams"]


def test_without_copies_there_is_nothing_to_prefetch():
    found = plan.edits(RULES, (SYNC,), (), 10)
    assert found["more-streams"] == found["full-pipeline"] == "the loop copies no batch to the GPU"


def test_a_trace_without_a_gpu_is_not_said_to_copy_nothing():
    unknown = (InventoryItem("host_copies", None, "no GPU work was recorded"),)
    assert set(plan.edits(RULES, (), unknown, 10).values()) == {plan.NO_GPU}


@pytest.mark.parametrize("path", ["a" * 500 + ".py", "tra\x1b[31min.py", "new\nline.py"])
def test_hostile_paths_stay_short_and_printable(path):
    steering = replace(stall("s4", "d2h", call="Tensor.unique"), location=Location(path, 3))
    reason = plan.edits(RULES, (steering,), (), 10)["event-interval"]
    assert reason.isprintable() and len(reason) < 150


# ------------------------------------------------------------------------------------------------- what part pays

EDITS = (Edit("interval-sync", ("s1",)), Edit("defer-read", ("s2",)), Edit("async-copy"), Edit("prefetch", depth=1))


def estimator(worth: dict[str, int]):
    """A step of 10 ms from which each kind of Edit takes its worth, in microseconds; waits only pay together."""

    def estimate(edits):
        present = set(kinds(edits))
        saved = sum(us for kind, us in worth.items() if kind in present)
        step = 10_000_000 - 1000 * saved
        return Estimate(10_000_000, step, step, step, "host", "unprofiled", "replayed")

    return replays(estimate)


def replays(estimate, noise=lambda edits, others: True):
    return plan.Replays(estimate, noise)


def test_copies_that_buy_nothing_are_dropped():
    kept = plan.keep_paying(EDITS, estimator({"defer-read": 1000}))
    assert kinds(kept) == ["interval-sync", "defer-read"]


def test_waits_that_buy_nothing_are_dropped():
    kept = plan.keep_paying(EDITS, estimator({"async-copy": 1000, "prefetch": 500}))
    assert kinds(kept) == ["async-copy", "prefetch"]


def test_only_the_prefetch_is_dropped_when_pinning_pays():
    kept = plan.keep_paying(EDITS, estimator({"async-copy": 1000, "defer-read": 1000}))
    assert kinds(kept) == ["interval-sync", "defer-read", "async-copy"]


def test_nothing_is_dropped_without_an_estimate():
    assert plan.keep_paying(EDITS, replays(lambda _: Abstention("replay", "no steps", "record steps"))) == EDITS


@pytest.mark.parametrize(("told_apart", "kept"), [(True, True), (False, False), (None, False)])
def test_a_copy_stream_is_made_where_its_gain_beside_pinned_copies_is_told_from_noise(told_apart, kept):
    asked = []

    def noise(edits, others):
        asked.append((kinds(edits), kinds(others)))
        return told_apart

    paying = replace(estimator({"async-copy": 1000, "prefetch": 500}), told_apart=noise)
    assert kinds(plan.keep_paying(EDITS, paying)) == (["async-copy", "prefetch"] if kept else ["async-copy"])
    assert asked == [(kinds(EDITS), kinds(EDITS[:-1]))]
    assert kinds(plan.keep_paying((Edit("prefetch", depth=1),), paying)) == ["prefetch"]


def test_a_scheme_never_loses_all_of_its_edits():
    assert plan.keep_paying((Edit("async-copy"),), estimator({})) == (Edit("async-copy"),)


def test_ten_reads_in_every_tenth_step_are_no_read_of_each_batch():
    seldom = stall("s1", "d2h", calls_per_step=1.0, step_share=0.1)
    assert isinstance(plan.edits(RULES, (seldom,), (), 10)["interval-sync"], str)
    each = stall("s1", "d2h", calls_per_step=1.0, step_share=1.0)
    assert kinds(plan.edits(RULES, (each,), (), 10)["interval-sync"]) == ["defer-read"]


@pytest.mark.parametrize(
    ("pinned", "aside", "reason"),
    [
        (True, False, "batches are copied from pinned memory without blocking already"),
        (None, False, "no copy of a batch makes the host wait"),
        (True, True, "batches travel on a copy stream already"),
    ],
)
def test_the_reason_claims_no_copy_stream_that_is_not_there(pinned, aside, reason):
    inventory = (
        InventoryItem("host_copies", True, ""),
        InventoryItem("pinned_memory", pinned, ""),
        InventoryItem("non_blocking_copies", True, ""),
        InventoryItem("copy_stream", aside, ""),
    )
    assert plan.edits(RULES, (SYNC,), inventory, 10)["pinned-copy"] == reason


def test_a_loader_in_the_training_thread_gets_no_copy_scheme_but_the_one_that_can_be_tried():
    in_process = (InventoryItem("loader_workers", False, "num_workers=0", 0),)
    found = plan.edits(RULES, (SYNC, READ, COPY), in_process, 10)
    assert kinds(found["pinned-copy"]) == ["async-copy"]
    assert kinds(found["event-interval"]) == ["event-sync", "interval-sync", "defer-read"]
    for name in ("more-streams", "full-pipeline"):
        assert "training thread (num_workers=0)" in found[name]


def test_what_is_pinned_already_is_said_also_without_workers():
    inventory = (
        InventoryItem("loader_workers", False, "num_workers=0", 0),
        InventoryItem("host_copies", True, ""),
        InventoryItem("pinned_memory", True, ""),
        InventoryItem("non_blocking_copies", True, ""),
    )
    expected = "batches are copied from pinned memory without blocking already"
    assert plan.edits(RULES, (SYNC,), inventory, 10)["pinned-copy"] == expected
