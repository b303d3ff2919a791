"""Times that are measured by pairs of events: which value the statements see, and when."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
import torch

from tracelens import runtime


class Event:
    """A GPU of our own, whose work takes no time on the host's clock: every mark is one second after the last."""

    now = 0.0
    waits = 0

    def __init__(self, enable_timing: bool = False) -> None:
        self.timed = enable_timing
        self.at = -1.0

    def record(self, stream: object = None) -> None:
        Event.now += 1.0
        self.at = Event.now

    def synchronize(self) -> None:
        Event.waits += 1

    def query(self) -> bool:
        return True

    def elapsed_time(self, stop: Event) -> float:
        assert self.timed and stop.timed
        return (stop.at - self.at) * 1e3


@pytest.fixture
def gpu() -> Iterator[None]:
    Event.now, Event.waits = 0.0, 0
    with mock.patch.multiple("torch.cuda", is_available=lambda: True, Event=Event):
        yield


@pytest.mark.parametrize("every", [10, None])
def test_spans_are_those_of_the_gpu_and_keep_their_order(every: int | None, gpu: None) -> None:
    ahead, seen = runtime.DeferredReads(every=every), []
    for step in ahead.iterate(range(25)):
        start = ahead.tick(lambda: 100.0)
        for _ in range(step % 3):
            ahead.tick(lambda: 0.0)
        stop = ahead.tick(lambda: 100.0)
        ahead.defer(lambda number, seconds: seen.append((number, seconds)), step, ahead.elapsed(start, stop))
    assert seen == [(step, 1.0 + step % 3) for step in range(25)]


def test_nothing_waits_before_the_values_are_due(gpu: None) -> None:
    ahead, seen = runtime.DeferredReads(every=10), []
    for step in ahead.iterate(range(10)):
        start = ahead.tick(lambda: 0.0)
        ahead.defer(seen.append, ahead.elapsed(start, ahead.tick(lambda: 0.0)))
        assert Event.waits == 0 and not seen, step
    assert seen == [1.0] * 10


def test_a_time_taken_before_the_loop_is_the_hosts(gpu: None) -> None:
    ahead, seen = runtime.DeferredReads(every=2), []
    begun = 40.0
    for _ in ahead.iterate(range(1)):
        ahead.defer(seen.append, ahead.elapsed(begun, ahead.tick(lambda: 42.5)))
    assert seen == [2.5]


def test_without_a_gpu_the_clock_counts() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    ahead, clock = runtime.DeferredReads(every=2), iter([3.0, 5.0])
    start, stop = ahead.tick(lambda: next(clock)), ahead.tick(lambda: next(clock))
    assert ahead.elapsed(start, stop) == 2.0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_long_kernel_is_seen_although_the_host_did_not_wait() -> None:
    ahead, seen = runtime.DeferredReads(every=10), []
    for _ in ahead.iterate(range(5)):
        start = ahead.tick(lambda: 0.0)
        torch.cuda._sleep(20_000_000)
        ahead.defer(seen.append, ahead.elapsed(start, ahead.tick(lambda: 0.0)))
    assert len(seen) == 5
    assert all(0.005 < seconds < 1.0 for seconds in seen)
