"""The line that makes a DataLoader is noted, also where a framework makes it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.lean import PRELUDE
from tracelens.capture.inside import loader_places
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.findings.recorded_loaders import loader_place
from tracelens.model import Location
from tracelens.run import read as read_run

torch = pytest.importorskip("torch")
DataLoader = torch.utils.data.DataLoader


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataLoader, "__init__", DataLoader.__init__)
    loader_places.install()


def line_of(loader: Any) -> int | None:
    place = loader_places.of_iterator(iter(loader))
    return place[1] if place is not None else None


def test_the_line_of_the_call_is_noted() -> None:
    here = test_the_line_of_the_call_is_noted.__code__.co_firstlineno
    plain = DataLoader([1, 2])
    longer = DataLoader(
        [1, 2],
        batch_size=2,
    )
    assert (line_of(plain), line_of(longer)) == (here + 2, here + 3)


def test_a_loader_that_is_made_of_another_one_keeps_its_line() -> None:
    here = test_a_loader_that_is_made_of_another_one_keeps_its_line.__code__.co_firstlineno
    own = DataLoader([1, 2])
    again = DataLoader(own.dataset, batch_sampler=own.batch_sampler)  # as Accelerate does
    assert line_of(again) == here + 2


def test_a_class_of_the_users_own_and_a_sampler_without_references_are_not_noted() -> None:
    class Own(DataLoader):  # type: ignore[misc, valid-type]
        def __init__(self, rows: list[int]) -> None:
            super().__init__(rows)

    assert line_of(Own([1, 2])) is None
    assert line_of(DataLoader([1, 2], sampler=(0, 1), batch_size=None)) is None


@pytest.mark.programs
def test_the_recording_holds_the_place_of_the_busiest_loader(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\n\n\ndef loaders():\n"
        "    rows = [(torch.ones(8), torch.ones(1))] * 60\n"
        "    return DataLoader(rows), DataLoader(rows[:2])\n"
    )
    (tmp_path / "train.py").write_text(
        f"{PRELUDE}from data import loaders\nmodel = torch.nn.Linear(8, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\ntraining, validation = loaders()\n"
        "for x, y in training:\n    (model(x) - y).sum().backward()\n    optimizer.step()\n"
    )
    outcome = profile(ProfileOptions("script", ("train.py",), cwd=tmp_path, monitor=False))
    assert loader_place(read_run(outcome.folder), 0) == Location("data.py", 7)
