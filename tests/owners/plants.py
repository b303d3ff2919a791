"""Training loops with one planted cost each, for a machine without a GPU. Argument: which; then the number of steps.

The planted line ends in `# plant: NAME`. How long it takes is added up per step and printed at the end as JSON, so that
what TraceLens says of the clean steps can be held against the very same steps. A step ends with `optimizer.step()`.
Where the owner is the loader, the backward pass or the optimizer, the whole of that call counts: what torch does in it
besides the plant is the owner's, too. Every plant takes a millisecond or more: recording costs tens of microseconds.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import io
import json
import logging
import os
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

now = time.perf_counter_ns
TAKEN: list[int] = [0]
"""ns that the planted line took, per step."""
ROWS = [list(range(60)) for _ in range(300)]
WORDS = ("the quick brown fox jumps over the lazy dog " * 400).split()
LOADING = ("item", "transform", "collate")
LOG = logging.getLogger("plants")
LOG.addHandler(logging.StreamHandler(io.StringIO()))
LOG.setLevel(logging.INFO)


def stamp(start: int) -> None:
    """The planted line has run since `start`."""
    TAKEN[-1] += now() - start


def spin(milliseconds: float) -> None:
    """Python that holds the interpreter's lock."""
    end = now() + milliseconds * 1e6
    while now() < end:
        pass


class Rows(Dataset):
    """Items that cost what they are told to."""

    def __init__(self, item_ms: float = 0.0, transform: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self.item_ms = item_ms
        self.transform = transform

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        row = torch.full((32,), float(index % 7))
        if self.item_ms:
            time.sleep(self.item_ms / 1000)  # plant: item
        return self.transform(row) if self.transform else row


class Blur:
    """A transform that is slow."""

    def __call__(self, row: torch.Tensor) -> torch.Tensor:
        time.sleep(0.0008)  # plant: transform
        return row * 0.5


def collate(rows: list[torch.Tensor]) -> torch.Tensor:
    spin(6)  # plant: collate
    return torch.stack(rows)


class Slow(torch.autograd.Function):
    """Its backward pass is Python."""

    @staticmethod
    def forward(ctx, value):
        return value * 1.0

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.006)
        return gradient


class Network(nn.Module):
    """Two layers, with a cost in the forward pass where one is wanted."""

    def __init__(self, plant: str, layers: int = 2) -> None:
        super().__init__()
        self.plant = plant
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(layers))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if self.plant == "forward":
            start = now()
            spin(5)  # plant: forward
            stamp(start)
        for layer in self.layers:
            batch = torch.relu(layer(batch))
        return Slow.apply(batch) if self.plant == "backward" else batch


@contextlib.contextmanager
def timed_section() -> Iterator[None]:
    yield
    start = now()
    time.sleep(0.005)  # plant: context
    stamp(start)


def retried(function: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(function)
    def around() -> None:
        start = now()
        spin(5)  # plant: decorator
        stamp(start)
        function()

    return around


@retried
def nothing() -> None:
    pass


def prefetched(loader: DataLoader) -> Iterator[torch.Tensor]:
    for batch in loader:
        start = now()
        time.sleep(0.005)  # plant: generator
        stamp(start)
        yield batch


def encode() -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in WORDS * 10:
        counts[word] = counts.get(word, 0) + len(word)
    return counts


def timed(loader: DataLoader) -> Iterator[torch.Tensor]:
    """The loader's batches; fetching one is stamped."""
    batches = iter(loader)
    while True:
        start = now()
        batch = next(batches, None)
        stamp(start)
        if batch is None:
            return
        yield batch


def loader_of(plant: str) -> DataLoader:
    if plant == "item":
        return DataLoader(Rows(item_ms=0.8), batch_size=8)
    if plant == "transform":
        return DataLoader(Rows(transform=Blur()), batch_size=8)
    if plant == "collate":
        return DataLoader(Rows(), batch_size=8, collate_fn=collate)
    if plant == "workers":
        return DataLoader(Rows(item_ms=2.0), batch_size=8, num_workers=1)
    return DataLoader(Rows(), batch_size=8)


def every_step(plant: str, model: nn.Module, number: int) -> None:
    """What a loop does beside training."""
    if plant == "decorator":
        nothing()
    elif plant == "context":
        with timed_section():
            pass
    start = now()
    if plant == "gc":
        gc.collect()  # plant: gc
    elif plant == "json":
        json.dumps(ROWS * 3)  # plant: json
    elif plant == "deepcopy":
        copy.deepcopy(ROWS)  # plant: deepcopy
    elif plant == "sleep":
        time.sleep(0.006)  # plant: sleep
    elif plant == "python":
        spin(6)  # plant: python
    elif plant == "tolist":
        torch.arange(200_000).tolist()  # plant: tolist
    elif plant == "pickle":
        pickle.dumps([list(row) for row in ROWS * 10])  # plant: pickle
    elif plant == "logging":
        LOG.info("rows %s", ROWS * 3)  # plant: logging
    elif plant == "sorting":
        sorted(WORDS * 20)  # plant: sorting
    elif plant == "branch" and number % 4 == 0:
        time.sleep(0.020)  # plant: branch
    elif plant == "random":
        time.sleep(random.uniform(0.003, 0.009))  # plant: random
    elif plant == "tokens":
        encode()  # plant: tokens
    elif plant == "parameters":
        sum(float(each.detach().norm()) for each in [*model.parameters()] * 4)  # plant: parameters
    else:
        return
    stamp(start)


def main(plant: str, steps: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    model = Network(plant, layers=300 if plant in ("optimizer", "parameters") else 2)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    batches = loader_of(plant)
    source = prefetched(batches) if plant == "generator" else timed(batches) if plant in LOADING else batches
    for number, batch in enumerate(source):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        start = now()
        loss.backward()  # plant: backward
        if plant == "backward":
            stamp(start)
        start = now()
        optimizer.step()  # plant: optimizer
        if plant == "optimizer":
            stamp(start)
        TAKEN.append(0)
        every_step(plant, model, number)
        if number + 1 == steps:
            break
    sys.stdout.write(json.dumps(TAKEN) + "\n")
    sys.stdout.flush()
    if plant == "workers":
        os._exit(0)  # the loader's worker is in the middle of a batch


if __name__ == "__main__":
    assert threading.active_count() == 1
    main(sys.argv[1], int(sys.argv[2]))
