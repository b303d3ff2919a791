"""What a batch's time is spent on: read off a fetcher from outside, in workers and in the training process.

The clock moves only where a cost is planted; samples, their order and the random numbers behind them stay the same.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data._utils import worker as torch_worker

from tracelens.capture.inside import batch_split, process_facts, worker_split
from tracelens.capture.inside.batch_split import MOST_BATCHES, SKIPPED, BatchSplit, merged

ITEM, NOISE, CROP, COLLATE = 2_000, 1_000, 3_000, 4_000
"""ns."""
ITEMS = 4

CLOCK = [0]


def spend(ns: int) -> None:
    CLOCK[0] += ns


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_split, "time", SimpleNamespace(perf_counter_ns=lambda: CLOCK[0]))


class Noise:
    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        spend(NOISE)
        return value + torch.rand(())


class Crop(torch.nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        spend(CROP)
        return value


class Compose:
    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            value = transform(value)
        return value


class Pictures(Dataset[torch.Tensor]):
    def __init__(self, fails_at: int = -1) -> None:
        self.transform = Compose(Noise(), Crop())
        self.fails_at = fails_at

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.fails_at:
            raise ValueError("a broken picture")
        spend(ITEM)
        return self.transform(torch.tensor(float(index)))


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Any:
        for index in range(20):
            spend(ITEM)
            yield torch.tensor(index)


def collate(samples: list[torch.Tensor]) -> torch.Tensor:
    spend(COLLATE)
    return torch.stack(samples)


@pytest.fixture
def split_of() -> Iterator[Callable[..., BatchSplit]]:
    """Makes splits, and ends them in reverse order."""
    made: list[BatchSplit] = []

    def attach(fetcher: Any, skipped: int = 0) -> BatchSplit:
        made.append(BatchSplit(fetcher, skipped))
        return made[-1]

    yield attach
    for split in reversed(made):
        split.detach()


Attach = Callable[..., BatchSplit]


def fetcher(dataset: Any) -> Any:
    return iter(DataLoader(dataset, batch_size=ITEMS, collate_fn=collate))._dataset_fetcher  # type: ignore[attr-defined]


def fetched(made: Any, batches: int) -> list[Any]:
    return [made.fetch([number] * ITEMS) for number in range(batches)]


def test_a_batch_s_time_is_that_of_its_samples_its_transforms_by_class_and_collating(split_of: Attach) -> None:
    made = fetcher(Pictures())
    split = split_of(made)
    fetched(made, 2)
    told = split.document(str(Path(__file__).parent))
    assert told["batches"] == 2
    assert told["transforms"] == {"Noise": 2 * ITEMS * NOISE, "Crop": 2 * ITEMS * CROP, "Compose": 0}
    assert told["collate_ns"] == 2 * COLLATE
    assert told["fetch_ns"] == 2 * (ITEMS * (ITEM + NOISE + CROP) + COLLATE)
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    place = told["sample_place"]
    assert (place["path"], place["function"]) == ("test_batch_split.py", "Pictures.__getitem__")
    assert "def __getitem__" in source[place["line"] - 1]
    assert told["collate_place"]["function"] == "collate"


def test_after_its_batches_fetcher_and_classes_are_as_before(split_of: Attach) -> None:
    dataset = Pictures()
    made = fetcher(dataset)
    before = {kind: dict(vars(kind)) for kind in (Noise, Crop, Compose, type(made))}, dict(vars(made))
    split = split_of(made, skipped=1)
    assert "fetch" in vars(made)
    fetched(made, 1 + MOST_BATCHES)
    assert split.document("")["batches"] == MOST_BATCHES
    after = {kind: dict(vars(kind)) for kind in (Noise, Crop, Compose, type(made))}, dict(vars(made))
    assert before == after


def test_samples_and_random_numbers_are_the_same(split_of: Attach) -> None:
    def run(*, watched: bool) -> tuple[list[torch.Tensor], torch.Tensor]:
        torch.manual_seed(3)
        made = fetcher(Subset(Pictures(), range(40)))
        if watched:
            split_of(made)
        return fetched(made, 3), torch.rand(2)

    (plain, then), (watched, afterwards) = run(watched=False), run(watched=True)
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert torch.equal(then, afterwards)


def test_the_samples_of_a_subset_are_made_where_the_project_makes_them(split_of: Attach) -> None:
    split = split_of(made := fetcher(Subset(Pictures(), range(40))))
    fetched(made, 1)
    assert split.document("")["sample_place"]["function"] == "Pictures.__getitem__"
    assert split.document("")["transforms"]["Crop"] == ITEMS * CROP


def test_an_iterable_dataset_ends_as_it_would(split_of: Attach) -> None:
    split = split_of(made := fetcher(Stream()))
    for _ in range(5):
        made.fetch([0] * ITEMS)
    with pytest.raises(StopIteration):
        made.fetch([0] * ITEMS)
    assert split.document("")["batches"] == 5
    assert split.document("")["sample_place"]["function"] == "Stream.__iter__"
    assert "fetch" not in vars(made)


def test_an_error_of_a_sample_shows_no_frame_of_ours_and_ends_the_split(split_of: Attach) -> None:
    split_of(made := fetcher(Pictures(fails_at=1)))
    made.fetch([0])
    with pytest.raises(ValueError, match="broken") as caught:
        made.fetch([1])
    files = [entry.path for entry in caught.traceback]
    assert not any("batch_split.py" in str(file) and "test_" not in str(file) for file in files)
    assert "fetch" not in vars(made) and "__call__" not in vars(Crop)


def test_splits_of_several_workers_are_one() -> None:
    one = {"batches": 2, "fetch_ns": 10, "collate_ns": 2, "transforms": {"A": 3}, "sample_place": None}
    other = {
        "batches": 1,
        "fetch_ns": 20,
        "collate_ns": 1,
        "transforms": {"A": 1, "B": 4},
        "sample_place": ["a", 1, "f"],
    }
    told = merged([one, other], workers=2)
    assert told is not None
    assert (told["batches"], told["fetch_ns"], told["collate_ns"]) == (3, 30, 3)
    assert told["transforms"] == {"A": 4, "B": 4} and told["sample_place"] == ["a", 1, "f"]
    assert merged([], workers=0) is None


def test_without_workers_the_training_process_says_it_and_is_left_as_it_was() -> None:
    seen = process_facts.LoaderFacts()
    iterator = iter(DataLoader(Pictures(), batch_size=ITEMS, collate_fn=collate))
    seen.first_batch(iterator, next(iterator))
    seen.begin_split("")
    next(iterator)
    seen.end_split()
    next(iterator)
    (told,) = seen.listed()
    assert (told["split"]["batches"], told["split"]["workers"]) == (1, 0)
    assert told["split"]["transforms"]["Crop"] == ITEMS * CROP
    assert "__call__" not in vars(Crop)


# --------------------------------------------------------------------------------------------------- worker processes


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(torch_worker, "_worker_loop", torch_worker._worker_loop)
    worker_split.install({"run": str(tmp_path), "cwd": str(Path(__file__).parent)})
    return tmp_path


@pytest.mark.programs
def test_forked_workers_say_what_they_spend_a_batch_on(installed: Path) -> None:
    loader = DataLoader(
        Pictures(), batch_size=ITEMS, num_workers=2, collate_fn=collate, multiprocessing_context="fork", shuffle=False
    )
    seen = process_facts.LoaderFacts()
    iterator = iter(loader)
    for number in range(2 * (SKIPPED + 3)):
        batch = next(iterator)
        assert torch.equal(batch.floor(), torch.arange(ITEMS * number, ITEMS * (number + 1)).float())
        if number == 0:
            seen.first_batch(iterator, batch)
    del iterator  # ends the workers
    told = seen.listed(str(installed))[0]["split"]
    assert told["workers"] == 2 and told["batches"] >= 4
    assert told["transforms"]["Crop"] == told["batches"] * ITEMS * CROP
    assert not list(installed.glob(".worker-*")), "what was read is removed"


@pytest.mark.programs
def test_nothing_is_measured_any_more_once_the_recording_is_over(installed: Path) -> None:
    (installed / "rank0").mkdir()
    (installed / "rank0" / "rank.json").write_text(json.dumps({}), encoding="utf-8")
    context = multiprocessing.get_context("fork")
    for _ in DataLoader(Stream(), batch_size=2, num_workers=1, multiprocessing_context=context):
        pass
    assert not list(installed.glob(".worker-*"))
