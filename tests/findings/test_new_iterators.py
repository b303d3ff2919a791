"""A loop that makes an iterator of its DataLoader for each batch: what that takes, and what is not said of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.support.builders import Machine
from tests.support.clocked_loops import ClockedLoop
from tracelens.model import NEW_ITERATOR, Owner, Owners, RankRecording
from tracelens.trace import loader_iterators
from tracelens.trace.loader_iterators import LoaderIterators

MARK = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
LOADING = 10
BEFORE, SEED, DRAWN, LISTED, FETCHED, AFTER = 100, 15, 400, 500, 800, 600
"""us, in order: Python before the seed is drawn, the seed, `randperm` and its list, the samples, the iterator's end."""


@dataclass
class Loop:
    """Line 10 takes a batch; the GPU waits for it."""

    seeds: bool = True
    every: int = 1
    clocked: ClockedLoop = field(default_factory=ClockedLoop)

    def owners(self, *, replayed: bool = True) -> Owners:
        self.clocked.run(self.body)
        return self.clocked.owners(replayed=replayed)

    def body(self, loop: ClockedLoop, number: int) -> None:
        new = self.seeds and number % self.every == 0
        machine = loop.at(LOADING)
        if new:
            machine.host(BEFORE)
            self.seed(machine)
        began = machine.now
        if new:
            self.seed(machine)
            with machine.operation("aten::randperm"):
                machine.host(DRAWN)
            machine.host(LISTED)
        for _ in range(8):
            with machine.operation("aten::select"):
                machine.host(FETCHED / 8)
        machine.events.annotation(MARK, began, machine.now - began)
        machine.host(AFTER if new else 0)
        loop.at(11).launch("gemm", 100)
        loop.at(12).host(3_000)

    def seed(self, machine: Machine) -> None:
        for name in ("aten::empty", "aten::random_", "aten::item"):
            with machine.operation(name):
                machine.host(SEED / 3)

    def found(self, meta: dict[str, object] | None = None) -> LoaderIterators:
        self.clocked.run(self.body)
        recording = None if meta is None else RankRecording(0, None, meta=meta)
        return loader_iterators.find(self.clocked.timeline(), recording)


MADE = BEFORE + 2 * SEED + DRAWN + LISTED + AFTER


def of_loader(owners: Owners) -> dict[str | None, Owner]:
    return {owner.callee: owner for owner in owners.owners if owner.kind == "dataloader"}


def test_making_the_iterator_is_an_owner_apart_from_the_samples() -> None:
    """Before the first kernel of the step runs the GPU idles for all of it, and the line has nothing left besides."""
    owners = Loop().owners()
    loader = of_loader(owners)
    assert loader[NEW_ITERATOR].owned_ns / 1e3 == pytest.approx(MADE, abs=20)
    assert loader["_SingleProcessDataLoaderIter.__next__"].owned_ns / 1e3 == pytest.approx(FETCHED, abs=20)
    assert {place.line for owner in loader.values() for place in owner.locations[:1]} == {LOADING}
    assert not [owner for owner in owners.owners if owner.kind == "host_line" and owner.locations[0].line == LOADING]


def test_a_kept_iterator_gives_back_what_making_it_takes_and_workers_are_not_said_to_help() -> None:
    loader = of_loader(Loop().owners())
    new, samples = loader[NEW_ITERATOR], loader["_SingleProcessDataLoaderIter.__next__"]
    assert new.recoverable_ns is not None and new.recoverable_ns / 1e3 == pytest.approx(MADE, abs=20)
    assert new.instead == "an iterator that is kept"
    assert (samples.recoverable_ns, samples.instead) == (None, None)


@pytest.mark.parametrize("loop", [Loop(seeds=False), Loop(every=4)], ids=["one iterator", "an epoch begins"])
def test_an_iterator_that_serves_many_batches_is_no_owner(loop: Loop) -> None:
    owners = loop.owners()
    assert not owners.makes_iterators and NEW_ITERATOR not in of_loader(owners)


def test_where_nothing_starts_work_on_the_gpu_it_is_found_all_the_same() -> None:
    loop = Loop()
    found = loop.found()
    assert found.fresh.all() and found.each_step
    assert found.order_ns[0] / 1e3 == pytest.approx(SEED + DRAWN + LISTED, abs=1)


def test_numbers_that_the_script_draws_itself_are_no_iterator() -> None:
    class Drawing(Loop):
        def seed(self, machine: Machine) -> None:
            with machine.operation("aten::randint"):
                super().seed(machine)

    assert not Drawing().found().fresh.any()


class Silent(Loop):
    """Its samples leave no row: where the order ends, nothing shows."""

    def body(self, loop: ClockedLoop, number: int) -> None:
        machine = loop.at(LOADING)
        self.seed(machine)
        began = machine.now
        with machine.operation("aten::randperm"):
            machine.host(DRAWN)
        machine.host(SAMPLES)
        machine.events.annotation(MARK, began, machine.now - began)
        loop.at(11).launch("gemm", 100)


SAMPLES = 9_600


def test_the_list_of_an_order_is_not_longer_than_its_numbers_allow() -> None:
    """Beyond three times what drawing them took."""
    assert Silent().found().order_ns[0] / 1e3 == pytest.approx(4 * DRAWN, abs=1)


def index(first_batches: int, first_ns: int, other_batches: int = 0, other_ns: int = 0) -> dict[str, object]:
    told = {"first_batches": first_batches, "first_ns": first_ns, "other_batches": other_batches, "other_ns": other_ns}
    return {"steps_seen": 40, "loaders": [{"iterators": 41, "index": told}]}


def test_what_the_recording_timed_is_a_share_of_the_batches_that_it_timed() -> None:
    """Of the 10 ms of a batch 1 is the sampler's: two batches are attributed."""
    assert Silent().found(index(2, 2_000_000)).order_ns[0] / 1e3 == pytest.approx(1_000, abs=1)
    other = Loop(seeds=False).found(index(0, 0, 2, 2 * 400_000))
    assert other.order_ns[0] / 1e3 == pytest.approx(400, abs=1) and other.per_step == 1.0


@pytest.mark.parametrize(("share", "order_us"), [(0.001, SEED + DRAWN), (0.99, SEED + DRAWN + LISTED)])
def test_the_rows_of_an_order_and_of_the_samples_bound_what_was_timed(share: float, order_us: float) -> None:
    batch_ns = 1_000 * (SEED + DRAWN + LISTED + FETCHED)
    assert Loop().found(index(2, round(2 * share * batch_ns))).order_ns[0] / 1e3 == pytest.approx(order_us, abs=1)


def test_what_was_timed_of_other_batches_tells_nothing() -> None:
    assert Silent().found(index(7, 7_000_000)).order_ns[0] / 1e3 == pytest.approx(4 * DRAWN, abs=1)


@pytest.mark.parametrize(
    ("meta", "per_step"),
    [
        ({"steps_seen": 40, "loaders": [{"iterators": 5}]}, 0.1),
        ({"steps_seen": 40, "loaders": [{"iterators": 1}]}, 0.0),
        ({"steps_seen": 0, "loaders": [{"iterators": 1}]}, 0.0),
        ({"steps_seen": 40, "loaders": None}, 0.0),
        ({"loaders": [{"iterators": 5}]}, 0.0),
    ],
)
def test_short_epochs_are_counted_over_the_whole_recording(meta: dict[str, object], per_step: float) -> None:
    assert Loop(every=4).found(meta).per_step == per_step
