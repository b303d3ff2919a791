"""The helpers that patched scripts use: order, exactness, and doing nothing where there is nothing to overlap."""

from __future__ import annotations

import ast
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tracelens import runtime
from tracelens.runtime import DeferredReads, Streams, prefetch

gpu = pytest.mark.gpu
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def collect(ahead: DeferredReads, values: list[torch.Tensor], stop: int | None = None) -> list[tuple[int, float]]:
    """Run a loop that hands each value on; returns what has been seen when the loop is over."""
    seen: list[tuple[int, float]] = []
    for number, value in ahead.iterate(enumerate(values)):
        ahead.defer(lambda n, v: seen.append((n, v)), number, ahead.item(value))
        if number == stop:
            break
    return seen


VALUES = [torch.tensor(value) for value in torch.randn(23, generator=torch.Generator().manual_seed(3)).tolist()]


@pytest.mark.parametrize("every", [1, 2, 10, 23, 100, None])
def test_all_values_in_order_after_the_loop(every: int | None) -> None:
    assert collect(DeferredReads(every), VALUES) == [(n, v.item()) for n, v in enumerate(VALUES)]


@pytest.mark.parametrize("stop", [0, 8, 9, 10])
def test_all_values_in_order_after_a_break(stop: int) -> None:
    assert collect(DeferredReads(10), VALUES, stop) == [(n, v.item()) for n, v in enumerate(VALUES[: stop + 1])]


def test_nothing_is_read_between_two_drains() -> None:
    ahead, seen, counts = DeferredReads(4), [], []
    for number, value in ahead.iterate(enumerate(VALUES[:10])):
        counts.append(len(seen))
        ahead.defer(lambda n, v: seen.append((n, v)), number, ahead.item(value))
    assert counts == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool]
)
def test_numbers_are_those_of_item(dtype: torch.dtype) -> None:
    mixed = [value.mul(7).to(dtype) for value in VALUES] + [
        torch.tensor([1.1]),
        torch.tensor(2),
        torch.tensor([[True]]),
    ]
    ahead, seen = DeferredReads(100), []
    for value in ahead.iterate(mixed):
        ahead.defer(seen.append, ahead.item(value))
    assert [(type(v), v) for v in seen] == [(type(v.item()), v.item()) for v in mixed]


def test_a_value_is_kept_as_it_was_when_it_was_read() -> None:
    loss = torch.tensor(8.0, requires_grad=True)
    ahead, seen = DeferredReads(10), []
    for _ in ahead.iterate(range(3)):
        ahead.defer(seen.append, ahead.item(loss))
        with torch.no_grad():
            loss /= 2
    assert seen == [8.0, 4.0, 2.0]


def test_no_graph_is_kept() -> None:
    ahead, graphs = DeferredReads(1000), []
    weight = torch.ones(1000, requires_grad=True)
    for _ in ahead.iterate(range(50)):
        loss = (weight * 2).sum()
        graphs.append(weakref.ref(loss))
        ahead.defer(lambda value: None, ahead.item(loss))
        assert sum(graph() is not None for graph in graphs) == 1


def test_what_is_no_tensor_is_read_at_once() -> None:
    ahead = DeferredReads(10)
    assert ahead.number(3.5) == 3.5
    assert ahead.formatted("text") == "text"
    with pytest.raises(AttributeError):
        ahead.item(3.5)
    with pytest.raises(RuntimeError):
        ahead.item(torch.ones(2))


def test_a_format_of_a_tensor_with_dimensions_fails_as_before() -> None:
    ahead = DeferredReads(10)
    value = torch.ones(1)
    assert ahead.formatted(value) is value


def test_statements_that_get_something_changeable_run_at_once_and_in_order() -> None:
    ahead, seen, shared = DeferredReads(10), [], torch.zeros(2, requires_grad=True)
    ahead.defer(seen.append, 1)
    ahead.defer(lambda value, tensor: seen.append((value, tensor)), ahead.item(torch.tensor(2)), shared)
    assert seen[0] == 1
    assert seen[1][0] == 2
    assert seen[1][1] is shared


def test_lists_and_tensors_without_a_graph_are_kept_as_they_were() -> None:
    ahead, seen, rates, accuracy = DeferredReads(10), [], [0.1], torch.tensor(0.5)
    ahead.defer(lambda *values: seen.extend(values), rates, accuracy)
    rates[0] = 0.2
    accuracy.mul_(0)
    ahead.drain()
    assert seen == [[0.1], torch.tensor(0.5)]


def test_lists_and_arrays_are_those_of_the_tensor() -> None:
    ahead, seen = DeferredReads(10), []
    value = torch.arange(6.0, requires_grad=True).reshape(2, 3)
    ahead.defer(seen.append, ahead.tolist(value))
    ahead.defer(seen.append, ahead.numpy(value))
    ahead.drain()
    assert seen[0] == value.tolist()
    assert (seen[1] == value.detach().numpy()).all()
    assert seen[1].dtype == value.detach().numpy().dtype


def test_an_error_in_deferred_statements_ends_them_and_reaches_the_loop() -> None:
    ahead, seen = DeferredReads(5), []
    with pytest.raises(ZeroDivisionError):
        for number in ahead.iterate(range(20)):
            ahead.defer(lambda n: seen.append(1 / (3 - n)), number)
    assert len(seen) == 3
    ahead.drain()
    assert len(seen) == 3


def test_an_error_in_statements_left_by_break_is_raised_by_the_drain_after_the_loop() -> None:
    ahead = DeferredReads(5)
    for number in ahead.iterate(range(3)):
        ahead.defer(lambda n: 1 / (1 - n), number)
        if number == 2:
            break
    with pytest.raises(ZeroDivisionError):
        ahead.drain()


def test_an_exception_in_the_loop_is_the_one_that_is_seen() -> None:
    ahead, seen = DeferredReads(5), []
    with pytest.raises(KeyError):
        for number in ahead.iterate(range(9)):
            ahead.defer(seen.append, number)
            if number == 7:
                raise KeyError
    assert seen == list(range(8))


def test_a_batch_is_not_kept_alive_by_the_loop_over_it() -> None:
    class Batch:
        alive = 0

        def __init__(self) -> None:
            Batch.alive += 1

        def __del__(self) -> None:
            Batch.alive -= 1

    for batch in DeferredReads(5).iterate(Batch() for _ in range(3)):
        del batch
        assert Batch.alive == 0


def test_slow_loops_show_their_lines_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 2))
    monkeypatch.setattr(runtime.time, "monotonic", lambda: float(next(now)))
    ahead, seen, counts = DeferredReads(10), [], []
    for number in ahead.iterate(range(4)):
        counts.append(len(seen))
        ahead.defer(seen.append, number)
    assert counts == [0, 1, 2, 3]


def test_without_cuda_nothing_is_synchronized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: pytest.fail("no synchronize without CUDA"))
    ahead = DeferredReads(2)
    for _ in ahead.iterate(range(5)):
        ahead.record()
        ahead.synchronize()


class FakeCuda:
    """Counts what the runtime asks of CUDA."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        fake = self

        class Event:
            device = None

            def record(self, stream: Any = None) -> None:
                assert self.device in (None, stream.device), "as torch says: another device than it was made on"
                self.device = stream.device
                fake.calls.append("record")

            def synchronize(self) -> None:
                fake.calls.append("event synchronize")

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: SimpleNamespace(device=device or 0))
        monkeypatch.setattr(torch.cuda, "synchronize", self._synchronize)

    def _synchronize(self, device: object = None) -> None:
        self.calls.append("synchronize" if device is None else f"synchronize {device}")


def test_an_event_per_batch_is_waited_for_every_n_batches_and_after_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, ahead = FakeCuda(monkeypatch), DeferredReads(4)
    for _ in ahead.iterate(range(10)):
        ahead.record()
    assert cuda.calls.count("record") == 10
    waits = [n for n, call in enumerate(cuda.calls) if call == "event synchronize"]
    assert waits == [4, 9, 12]


def test_as_soon_as_possible_waits_only_after_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, ahead = FakeCuda(monkeypatch), DeferredReads(None)
    for _ in ahead.iterate(range(10)):
        ahead.record()
    assert cuda.calls == ["record"] * 10 + ["event synchronize"]


def test_interval_synchronize(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, ahead = FakeCuda(monkeypatch), DeferredReads(4)
    seen = []
    for _ in ahead.iterate(range(10)):
        ahead.synchronize()
        seen.append(len(cuda.calls))
    assert seen == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert cuda.calls == ["synchronize"] * 3


def test_each_device_that_the_loop_waits_for_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, ahead = FakeCuda(monkeypatch), DeferredReads(4)
    for _ in ahead.iterate(range(6)):
        ahead.record(0)
        ahead.record(1)
    assert cuda.calls == ["record"] * 7 + ["event synchronize", "record", "event synchronize"] + [
        *["record"] * 4,
        *["event synchronize"] * 2,
    ]
    cuda.calls.clear()
    ahead = DeferredReads(4)
    for _ in ahead.iterate(range(2)):
        ahead.synchronize("cuda:1")
    assert cuda.calls == ["synchronize cuda:1"]


# ---------------------------------------------------------------------------------------------------- prefetch


def test_without_cuda_the_loader_is_what_it_was() -> None:
    loader = DataLoader(list(range(10)), batch_size=4)
    assert prefetch(loader, "cpu") is loader
    if not torch.cuda.is_available():
        assert prefetch(loader, "cuda", move_random_draws=True) is loader


class Numbers(Dataset):
    def __init__(self, bad: int | None = None) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 22

    def __getitem__(self, index: int) -> dict[str, object]:
        if index == self.bad:
            raise ValueError("bad item")
        return {
            "x": torch.full((64,), float(index)),
            "pair": (torch.tensor(index), [torch.ones(2)]),
            "name": str(index),
        }


@gpu
@needs_gpu
def test_prefetched_batches_are_the_loaders_on_the_gpu() -> None:
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True)
    wrapped = prefetch(loader, "cuda", depth=2)
    assert len(wrapped) == 6
    assert wrapped.dataset is loader.dataset
    for _ in range(2):
        for mine, theirs in zip(wrapped, loader, strict=True):
            assert mine["x"].is_cuda
            assert torch.equal(mine["x"].cpu(), theirs["x"])
            assert torch.equal(mine["pair"][0].cpu(), theirs["pair"][0])
            assert mine["name"] == theirs["name"]
    for _ in wrapped:
        break


@gpu
@needs_gpu
def test_a_workers_error_comes_at_its_batch() -> None:
    wrapped = prefetch(DataLoader(Numbers(bad=13), batch_size=4, num_workers=2), "cuda", depth=2)
    seen = []
    with pytest.raises(ValueError, match="bad item"):
        for batch in wrapped:
            seen.append(batch["name"])
    assert len(seen) == 3


@gpu
@needs_gpu
def test_two_loops_at_once_over_one_wrapped_loader() -> None:
    wrapped = prefetch(DataLoader(Numbers(), batch_size=4, num_workers=2), "cuda")
    pairs = [(a["name"][0], b["name"][0]) for a, b in zip(wrapped, wrapped, strict=True)]
    assert all(a == b for a, b in pairs)


@gpu
@needs_gpu
@pytest.mark.parametrize("every", [10, None])
def test_values_on_the_gpu(every: int | None) -> None:
    values = [value.cuda() for value in VALUES]
    assert collect(DeferredReads(every), values) == [(n, v.item()) for n, v in enumerate(values)]


@gpu
@needs_gpu
def test_batches_survive_a_slow_consumer_and_a_busy_allocator() -> None:
    class Large(Dataset):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.full((1 << 20,), float(index))

    weight = torch.randn(4096, 4096, device="cuda")
    loader = DataLoader(Large(), batch_size=2, num_workers=2, pin_memory=True)
    sums = []
    for batch in prefetch(loader, "cuda", depth=2):
        for _ in range(3):
            weight = weight @ weight / 64
        sums.append(batch.double().sum())
        del batch
        torch.empty(1 << 21, device="cuda").fill_(-1.0)
    expected = [(2 * n + 2 * n + 1) * float(1 << 20) for n in range(20)]
    assert [value.item() for value in sums] == expected


# ----------------------------------------------------------------------------------------------------- streams


def test_without_cuda_streams_and_events_do_nothing() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    streams = Streams()
    event = streams.create_event()
    with streams.on("forward"):
        streams.record_event(event, "forward")
    assert streams.query_event(event)
    streams.wait("backward", event)
    streams.synchronize("backward")
    streams.synchronize()
    streams.set_current("spare")
    assert streams.names == ("transfer", "forward", "backward", "spare")
    assert streams.stream("transfer") is None
    value = torch.ones(2)
    assert streams.keep(value, "forward") is value
    with pytest.raises(KeyError):
        streams.wait("nowhere", event)


@gpu
@needs_gpu
def test_named_streams_wait_for_events_of_one_another() -> None:
    streams = Streams(("transfer", "compute"))
    event = streams.create_event()
    with streams.on("transfer"):
        source = torch.ones(1 << 24, device="cuda") * 3
        streams.record_event(event, "transfer")
    streams.wait("compute", event)
    with streams.on("compute"):
        total = source.sum()
    streams.synchronize("compute")
    assert streams.query_event(event)
    assert total.item() == 3 * (1 << 24)


class FakeStreams:
    """Streams and events that write down, in order, what is asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        fake = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                self.timed, self.at = enable_timing, None

            def record(self, stream: Stream) -> None:
                self.at = stream.name
                fake.log.append(f"record on {stream.name}")

            def query(self) -> bool:
                return self.at is None

        class Stream:
            made = 0

            def __init__(self, device: object) -> None:
                self.name = "abcd"[Stream.made]
                Stream.made += 1

            def wait_event(self, event: Event) -> None:
                fake.log.append(f"{self.name} waits for {event.at}")

            def synchronize(self) -> None:
                fake.log.append(f"host waits for {self.name}")

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: self.log.append(f"current is {stream.name}"))


def test_the_seeds_pipeline_of_four_streams_in_their_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transfer, forward, backward: each waits for the event of the one before; the host asks, and waits at the end."""
    fake, streams = FakeStreams(monkeypatch), Streams()
    transferred, forwarded = streams.create_event(), streams.create_event(timed=True)
    assert (transferred.timed, forwarded.timed) == (False, True)
    assert streams.query_event(transferred), "nothing was marked: nothing to wait for"
    streams.set_current("transfer")
    streams.record_event(transferred, "transfer")
    streams.wait("forward", transferred)
    streams.record_event(forwarded, "forward")
    streams.wait("backward", forwarded)
    assert not streams.query_event(forwarded)
    streams.synchronize("backward")
    assert fake.log == [
        "current is a",
        "record on a",
        "b waits for a",
        "record on b",
        "c waits for b",
        "host waits for c",
    ]
    with pytest.raises(KeyError):
        streams.record_event(transferred, "nowhere")
    streams.synchronize()
    assert fake.log[-4:] == [f"host waits for {name}" for name in "abcd"]


# ----------------------------------------------------------------------------------------------------- the file


def test_the_file_needs_torch_and_nothing_else() -> None:
    tree = ast.parse(Path(runtime.__file__).read_text())

    def roots() -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield (node.module or "").partition(".")[0]

    assert set(roots()) - {"torch"} <= sys.stdlib_module_names


def test_what_is_due_is_read_before_a_clock_and_not_again_at_the_end_of_its_batch() -> None:
    ahead, seen, read = DeferredReads(every=4), [], []
    for step in ahead.iterate(range(10)):
        ahead.defer(seen.append, step)
        ahead.read_due()
        read.append(len(seen))
    assert read == [0, 0, 0, 4, 4, 4, 4, 8, 8, 8]
    assert seen == list(range(10))
