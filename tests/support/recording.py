"""Recording small scripts in processes of their own, and loops that say how many iterations they have left."""

from __future__ import annotations

import linecache
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support.places import SCRIPTS
from tracelens.capture.inside.attribution import Attribution
from tracelens.capture.inside.loop_bounds import remaining_iterations
from tracelens.capture.supervisor.recording import Outcome, ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def left() -> int | None:
    """Iterations that the loops around the caller still have."""
    return remaining_iterations(sys._getframe(1)).total


OWN = (torch.Tensor.item, torch.Tensor.to, torch.Tensor.__getitem__, torch.where, torch.tensor)


@contextmanager
def attributed() -> Iterator[Any]:
    """As within the attributed steps."""

    attribution = Attribution()
    attribution.install()
    try:
        assert torch.Tensor.item is not OWN[0]
        yield attribution
    finally:
        attribution.remove()
    assert (torch.Tensor.item, torch.Tensor.to, torch.Tensor.__getitem__, torch.where, torch.tensor) == OWN


LENGTH = 30


def yields_of(form: str, **given: Any) -> Iterator[FrameType]:
    """A loop of `LENGTH` turns, over two epochs of half as many where there are epochs; yields its frame in each.

    `given`: what its module has besides.
    """
    source = "def loop(rows, live, most=LENGTH):\n" + textwrap.indent(textwrap.dedent(form), "    ")
    path = f"/nowhere/{abs(hash(source))}.py"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    names: dict[str, Any] = {
        "LENGTH": LENGTH,
        "frame": lambda: sys._getframe(1),
        "DataLoader": Noted,
        "count": count,
        "tqdm": iter,
        **given,
    }
    exec(compile(source, path, "exec"), names)
    yield from names["loop"](TensorDataset(torch.ones(LENGTH, 1), torch.ones(LENGTH, 1)), LIVE)


class Noted(DataLoader):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        LIVE.insert(0, super().__iter__())
        return LIVE[0]


LIVE: list[Any] = []


FORMS = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
steps = int(sys.argv[1])
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(steps, 8), torch.ones(steps, 1)))
for x, y in (row for row in rows):
    (model(x) - y).sum().backward()
    optimizer.step()
"""


PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=5)


def record(folder: Path, *words: str, **options: Any) -> Outcome:
    return profile(ProfileOptions("script", words, cwd=folder, monitor=False, **{"plan": PLAN} | options))


def plain() -> str:
    return str(SCRIPTS / "plain.py")
