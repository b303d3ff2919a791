"""How many iterators a loop makes, and how long the main thread looks for the samples of a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lean import PRELUDE
from tracelens import pipeline
from tracelens.capture.inside import loader_places, process_facts
from tracelens.capture.inside.index_clock import METHOD, IndexClock
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.model import NEW_ITERATOR
from tracelens.run import read as read_run

torch = pytest.importorskip("torch")
dataloader = torch.utils.data.dataloader
DataLoader = torch.utils.data.DataLoader
SLOW_S = 0.01


class SlowOrder(torch.utils.data.Sampler):  # type: ignore[misc, name-defined]
    """Needs a while to make an order, and nothing for each sample."""

    def __iter__(self) -> Iterator[int]:
        time.sleep(SLOW_S)
        yield from range(8)

    def __len__(self) -> int:
        return 8


def loader() -> object:
    return DataLoader(list(range(8)), batch_size=2, sampler=SlowOrder())


def test_the_order_of_a_new_iterator_is_timed_apart_from_what_follows() -> None:
    clock = IndexClock()
    clock.install()
    batches = [batch.tolist() for _ in range(2) for batch in loader()]  # type: ignore[attr-defined]
    clock.remove()
    told = clock.document()
    assert batches == 2 * [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert told is not None
    assert (told["first_batches"], told["other_batches"]) == (2, 8)  # the last call of an epoch finds none
    assert 2e9 * SLOW_S <= told["first_ns"] < 2e9 * SLOW_S + 0.5e9
    assert told["other_ns"] < told["first_ns"]


def test_afterwards_torch_has_its_own_method_again() -> None:
    original = vars(dataloader._BaseDataLoaderIter)[METHOD]
    clock = IndexClock()
    clock.remove()
    clock.install()
    clock.remove()
    clock.remove()
    assert vars(dataloader._BaseDataLoaderIter)[METHOD] is original
    assert clock.document() is None


def test_an_error_of_a_sampler_reaches_the_script_as_it_is() -> None:
    clock = IndexClock()
    clock.install()
    try:
        with pytest.raises(ZeroDivisionError) as caught:
            next(iter(DataLoader([1], sampler=(1 // zero for zero in (0,)))))
    finally:
        clock.remove()
    assert "index_clock.py" not in [Path(entry.path).name for entry in caught.traceback]


def test_an_iterator_that_began_before_makes_no_order() -> None:
    begun = iter(loader())  # type: ignore[call-overload]
    next(begun)
    clock = IndexClock()
    clock.install()
    next(begun)
    clock.remove()
    told = clock.document()
    assert told is not None and (told["first_batches"], told["other_batches"]) == (0, 1)


def counted(loaders: list[object]) -> list[int]:
    """Iterators by loader, as rank.json has them."""
    seen = process_facts.LoaderFacts()
    for one in loaders:
        iterator = iter(one)  # type: ignore[call-overload]
        seen.first_batch(iterator, next(iterator))
    return [entry["iterators"] for entry in seen.listed()]


def test_iterators_are_counted_by_their_loader() -> None:
    kept, other = DataLoader(list(range(8))), DataLoader(list(range(9)), batch_size=3)
    assert counted([kept, kept, other, kept]) == [3, 1]


def test_loaders_that_are_made_at_one_line_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beyond the number of loaders that are described."""
    monkeypatch.setattr(DataLoader, "__init__", DataLoader.__init__)
    loader_places.install()
    count = process_facts.MOST_LOADERS + 5
    assert counted([DataLoader(list(range(8))) for _ in range(count)])[0] == count


SCRIPT = f"""{PRELUDE}from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(60_000, 4), torch.randn(60_000, 1)), 16, shuffle=True)
batches = iter(loader)
for _ in range(60):
    x, y = %s
    (model(x) - y).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LINE = SCRIPT[: SCRIPT.index("x, y")].count("\n") + 1


@pytest.mark.programs
@pytest.mark.parametrize("renewed", [True, False])
def test_a_loop_that_makes_an_iterator_per_batch_is_told_so(tmp_path: Path, renewed: bool) -> None:
    """`next(iter(loader))` draws 60,000 numbers for each batch of 16: that is most of its step."""
    (tmp_path / "train.py").write_text(SCRIPT % ("next(iter(loader))" if renewed else "next(batches)"))
    outcome = profile(ProfileOptions("script", ("train.py",), cwd=tmp_path, monitor=False))
    run = read_run(outcome.folder)
    (noted,) = run.recordings[0].meta["loaders"]
    steps = run.recordings[0].meta["steps_seen"]
    owners = pipeline.diagnose(pipeline.open_inputs((outcome.folder,))).owners
    assert noted["iterators"] == pytest.approx(steps if renewed else 1, abs=1)
    assert owners.makes_iterators is renewed
    if renewed:
        (new,) = (owner for owner in owners.owners if owner.callee == NEW_ITERATOR)
        assert owners.owners[0] == new and new.locations[0].line == LINE
        assert noted["index"]["first_batches"] >= 1 and noted["index"]["first_ns"] > 500_000
