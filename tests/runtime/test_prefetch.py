"""The prefetcher without a GPU: which batches come when, with streams and events that only take notes."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
)

from tracelens import runtime
from tracelens.runtime import prefetch

Pair = namedtuple("Pair", "x y")


class Copied(torch.Tensor):
    """A tensor that was "copied to the GPU": notes by which streams its memory was said to be used."""

    recorded: list[str]

    def record_stream(self, stream: Any) -> None:
        self.recorded.append(stream)


class FakeGpu:
    """Streams are names, events take notes of what happens to them, in `log`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, Any]] = []
        self.copies: list[Copied] = []
        self._current = ["compute"]
        gpu = self

        class Event:
            count = 0

            def __init__(self) -> None:
                Event.count += 1
                self.number, self.stream = Event.count, None

            def record(self, stream: Any = None) -> None:
                self.stream = stream or gpu._current[-1]
                gpu.log.append(("record", self.stream))

            def synchronize(self) -> None:
                gpu.log.append(("host waits", self.stream))

        class Stream:
            def __init__(self, name: str) -> None:
                self.name = name

            def __eq__(self, other: object) -> bool:
                return self.name == (other.name if isinstance(other, Stream) else other)

            __hash__ = None  # type: ignore[assignment]

            def wait_event(self, event: Event) -> None:
                gpu.log.append((f"{self.name} waits", event.stream))

        class On:
            def __init__(self, stream: Any) -> None:
                self.stream = stream

            def __enter__(self) -> None:
                gpu._current.append("copy")

            def __exit__(self, *_: object) -> None:
                gpu._current.pop()

        def copied(tensor: torch.Tensor, _device: torch.device) -> torch.Tensor:
            assert gpu._current[-1] == "copy"
            made = tensor.clone().as_subclass(Copied)
            made.recorded = []
            gpu.copies.append(made)
            gpu.log.append(("copy", None))
            return made

        monkeypatch.setattr(runtime, "_COPY_STREAMS", {})
        monkeypatch.setattr(runtime, "_copied", copied)
        monkeypatch.setattr(runtime, "_protect_workers", lambda: None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("copy"))
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "stream", On)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: Stream(gpu._current[-1]))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    return FakeGpu(monkeypatch)


class Rows(Dataset):
    """Ten rows; notes which were fetched."""

    def __init__(self, bad: int | None = None) -> None:
        self.bad, self.fetched = bad, []

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise ValueError("bad row")
        self.fetched.append(index)
        return torch.tensor(float(index))


def ahead(loader: Any, depth: int = 1) -> Any:
    return prefetch(loader, "cuda", depth=depth, move_random_draws=True)


@pytest.mark.parametrize("depth", [1, 2, 20])
def test_the_batches_are_the_loaders_with_the_last_partial_one(gpu: FakeGpu, depth: int) -> None:
    loader = DataLoader(Rows(), batch_size=4)
    for _ in range(2):  # iterated twice: each time from the beginning
        assert [batch.tolist() for batch in ahead(loader, depth)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_length_sampler_dataset_and_all_else_are_the_loaders(gpu: FakeGpu) -> None:
    loader = DataLoader(Rows(), batch_size=4)
    wrapped = ahead(loader)
    assert wrapped is not loader
    assert len(wrapped) == 3
    assert (wrapped.dataset, wrapped.sampler, wrapped.batch_size) == (loader.dataset, loader.sampler, 4)
    with pytest.raises(AttributeError):
        _ = wrapped.nothing_of_that_name


def test_a_loader_without_a_length_has_none(gpu: FakeGpu) -> None:
    class Stream(IterableDataset):
        def __iter__(self) -> Any:
            return iter([torch.tensor(1.0), torch.tensor(2.0)])

    wrapped = ahead(DataLoader(Stream(), batch_size=None))
    with pytest.raises(TypeError):
        len(wrapped)
    assert [batch.item() for batch in wrapped] == [1.0, 2.0]


@pytest.mark.parametrize("depth", [1, 2])
def test_so_many_batches_are_fetched_ahead_and_no_more(gpu: FakeGpu, depth: int) -> None:
    rows = Rows()
    batches = iter(ahead(DataLoader(rows, batch_size=1), depth))
    next(batches)
    assert rows.fetched == list(range(1 + depth))
    next(batches)
    assert rows.fetched == list(range(2 + depth))


def test_a_break_fetches_nothing_more_and_the_next_loop_begins_anew(gpu: FakeGpu) -> None:
    rows = Rows()
    wrapped = ahead(DataLoader(rows, batch_size=2))
    for _ in wrapped:
        break
    assert rows.fetched == [0, 1, 2, 3]
    assert next(iter(wrapped)).tolist() == [0, 1]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_the_data_comes_at_its_batch(gpu: FakeGpu, workers: int) -> None:
    seen = []
    with pytest.raises(ValueError, match="bad row"):
        for batch in ahead(DataLoader(Rows(bad=5), batch_size=2, num_workers=workers), depth=2):
            seen.append(batch.tolist())
    assert seen == [[0, 1], [2, 3]]


def test_two_loops_at_once_do_not_disturb_each_other(gpu: FakeGpu) -> None:
    wrapped = ahead(DataLoader(Rows(), batch_size=4))
    assert [(a.tolist(), b.tolist()) for a, b in zip(wrapped, wrapped, strict=True)] == [
        (rows, rows) for rows in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9])
    ]


def test_each_tensor_of_a_nested_batch_is_copied_waited_for_and_kept(gpu: FakeGpu) -> None:
    x = torch.tensor(1.0)
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    batch = {"pair": Pair(x, [x, (x,)]), "name": "a", "number": 3, "packed": packed}
    (got,) = list(ahead(DataLoader([batch], batch_size=None)))
    assert type(got["pair"]) is Pair
    assert (got["name"], got["number"]) == ("a", 3)
    assert not any(isinstance(part, Copied) for part in got["packed"]), "its lengths must stay on the CPU"
    assert len(gpu.copies) == 3
    assert all(copy.recorded == ["compute"] for copy in gpu.copies), "record_stream for every one of them"
    assert gpu.log.index(("compute waits", "copy")) > max(n for n, one in enumerate(gpu.log) if one == ("copy", None))


def test_a_batch_that_is_on_the_gpu_already_is_left_alone(gpu: FakeGpu) -> None:
    on_device = torch.empty(2, device="meta")
    (got,) = list(ahead(DataLoader([on_device], batch_size=None)))
    assert got is on_device
    assert gpu.copies == []


def test_the_host_waits_before_it_runs_too_far_ahead(gpu: FakeGpu) -> None:
    rows = [torch.tensor(float(n)) for n in range(10)]
    for _ in ahead(DataLoader(rows, batch_size=None)):
        pass
    waits = [one for one in gpu.log if one[0] == "host waits"]
    assert len(waits) == 10 - runtime.MAX_BATCHES_IN_FLIGHT


def test_one_copy_stream_serves_all_loops(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    stream = torch.cuda.Stream
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: made.append(device) or stream(device))
    wrapped = ahead(DataLoader(Rows(), batch_size=4))
    for _ in range(3):
        for _ in wrapped:
            pass
    assert len(made) == 1


class Remembering(DataLoader):
    """Goes on in the next epoch where the last one was left."""

    def __iter__(self) -> Any:
        self.__dict__.setdefault("batches", super().__iter__())
        return self.batches


class OwnSampler(Sampler):
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        return iter(range(len(self.rows)))

    def __len__(self) -> int:
        return len(self.rows)


class OwnLoader:
    """Gives the same memory again and again."""

    num_workers = 2

    def __iter__(self) -> Any:
        memory = torch.zeros(2)
        for _ in range(3):
            yield memory.add_(1)


ROWS = Rows()
AS_IT_IS = {
    "a class that iterates in its own way": lambda: Remembering(ROWS, num_workers=1),
    "a sampler of the script's own": lambda: DataLoader(ROWS, num_workers=1, sampler=OwnSampler(ROWS)),
    "batches of the script's own": lambda: DataLoader(ROWS, num_workers=1, batch_sampler=[[0, 1], [2]]),
    "a sampler of its own in torch's batches": lambda: DataLoader(
        ROWS, num_workers=1, batch_sampler=BatchSampler(OwnSampler(ROWS), 2, False)
    ),
    "a generator that others hold": lambda: DataLoader(ROWS, num_workers=1, generator=torch.Generator()),
    "a sampler's generator": lambda: DataLoader(
        ROWS, num_workers=1, sampler=RandomSampler(ROWS, generator=torch.Generator())
    ),
    "no loader of torch's": OwnLoader,
    "a list of batches": lambda: [torch.ones(2)],
}


@pytest.mark.parametrize("name", AS_IT_IS)
def test_a_loader_that_would_notice_being_asked_earlier_stays_as_it_is(gpu: FakeGpu, name: str) -> None:
    loader = AS_IT_IS[name]()
    assert prefetch(loader, "cuda") is loader
    assert prefetch(loader, "cuda", move_random_draws=True) is not loader, "as somebody asked for by --unsafe"


@pytest.mark.parametrize("sampler", [RandomSampler, SubsetRandomSampler, SequentialSampler])
def test_samplers_of_torch_draw_nothing_between_two_batches(gpu: FakeGpu, sampler: Any) -> None:
    loader = DataLoader(ROWS, num_workers=1, sampler=sampler(ROWS))
    assert prefetch(loader, "cuda") is not loader
    assert prefetch(DataLoader(ROWS, num_workers=1, shuffle=True), "cuda", leaves_early=True) is not loader


def test_workers_that_live_on_are_not_asked_for_a_batch_that_a_break_would_leave(gpu: FakeGpu) -> None:
    loader = DataLoader(ROWS, num_workers=1, persistent_workers=True)
    assert prefetch(loader, "cuda", leaves_early=True) is loader
    assert prefetch(loader, "cuda") is not loader


def test_tensors_without_memory_of_their_own_are_left_to_the_script(gpu: FakeGpu) -> None:
    """`record_stream` knows no sparse tensors, nor those made of others: the first batch would have failed."""
    odd = [torch.eye(2).to_sparse(), TwoTensor(torch.ones(2), torch.ones(2))]
    (got,) = list(ahead(DataLoader([[*odd, torch.ones(2)]], batch_size=None)))
    assert all(one is other for one, other in zip(got[:-1], odd, strict=True))
    assert len(gpu.copies) == 1


def test_without_workers_a_loader_keeps_its_random_draws_where_they_are(gpu: FakeGpu) -> None:
    loader = DataLoader(Rows(), batch_size=4, shuffle=True)
    assert prefetch(loader, "cuda") is loader
    assert prefetch(loader, "cpu", move_random_draws=True) is loader
    assert prefetch(loader, "mps", move_random_draws=True) is loader
