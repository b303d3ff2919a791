"""What workers can deliver is read off their CPU time, however long the loop lets them wait."""

from __future__ import annotations

import sys
import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tracelens.capture.inside import process_facts, worker_throughput

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells a process's CPU time in /proc"
)
BURNT = 0.004
"""CPU seconds per sample."""


class Burning(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 160

    def __getitem__(self, index: int) -> torch.Tensor:
        until = time.process_time() + BURNT
        while time.process_time() < until:
            pass
        return torch.zeros(8)


def loop(loader: DataLoader[torch.Tensor], seen: process_facts.LoaderFacts, pause: float, batches: int = 20) -> None:
    iterator = iter(loader)
    for number, batch in enumerate(iterator, 1):
        if number == 1:
            seen.first_batch(iterator, batch)
        time.sleep(pause)
        if number == batches:
            break
    seen.measure_throughput()


@pytest.mark.slow
@linux
@pytest.mark.parametrize("pause", [0.0, 0.03], ids=["waits for its workers", "never waits"])
def test_a_batch_costs_its_workers_the_same_whether_they_hurry_or_not(pause: float) -> None:
    seen = process_facts.LoaderFacts()
    loop(DataLoader(Burning(), batch_size=4, num_workers=2, multiprocessing_context="fork"), seen, pause)
    (told,) = seen.listed()
    found = told["supply"]
    assert 14 <= found["batches"] <= 24, "those not delivered yet are made all the same"
    each = found["worker_seconds"] / found["batches"]
    assert 0.8 * 4 * BURNT < each < 1.8 * 4 * BURNT
    assert 0 <= found["ready"] <= 4


@pytest.mark.slow
@linux
def test_lasting_workers_are_measured_afresh_in_each_epoch() -> None:
    seen, loader = (
        process_facts.LoaderFacts(),
        DataLoader(Burning(), batch_size=8, num_workers=1, persistent_workers=True, multiprocessing_context="fork"),
    )
    for _ in range(2):
        iterator = iter(loader)
        for number, batch in enumerate(iterator, 1):
            if number == 1:
                seen.first_batch(iterator, batch)
            if number == 15:
                seen.measure_throughput()
    (told,) = seen.listed()
    assert told["supply"]["batches"] <= 20
    assert told["supply"]["worker_seconds"] / told["supply"]["batches"] > 0.8 * 8 * BURNT


def test_a_loader_without_workers_tells_nothing() -> None:
    seen = process_facts.LoaderFacts()
    loop(DataLoader(Burning(), batch_size=4), seen, 0.0, batches=3)
    assert seen.listed()[0]["supply"] is None


def test_an_iterator_of_another_torch_tells_nothing() -> None:
    assert worker_throughput.read(object()) is None


def test_a_loader_that_is_gone_tells_nothing() -> None:
    kept, loader = (
        worker_throughput.WorkerThroughput(),
        DataLoader(Burning(), batch_size=4, num_workers=1, multiprocessing_context="fork"),
    )
    iterator = iter(loader)
    next(iterator)
    kept.began("key", iterator)
    del iterator
    assert kept.so_far() == {}
