"""Training loops with one planted owner each, and the same loop mended by hand. For a machine with a GPU.

    python gpu_plants.py PLANT SIZE plain|mended|both STEPS

The planted line ends in `# plant: NAME`. Prints one line of JSON: the mean step in µs over the last STEPS steps, by the
clock of the host between two synchronizations; of `both` that of the loop and of its twin, each TURNS times, in turn.
"""

from __future__ import annotations

import copy
import gc
import io
import json
import os
import sys
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

TURNS, WARM_UP = 3, 20
PLANT, SIZE, VARIANT, STEPS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PLAIN = VARIANT == "plain"
WIDTH, LAYERS, BATCH = {"small": (256, 4, 64), "large": (4096, 12, 1024)}[SIZE]
HEAVY = {"small": 1, "large": 4}[SIZE]
"""How much the planted cost grows with the loop."""
WORDS = ("the quick brown fox jumps over the lazy dog " * (300 * HEAVY)).split()
ROWS = [list(range(60)) for _ in range(200 * HEAVY)]
DEVICE = torch.device("cuda")


class Rows(Dataset):
    """Rows of noise; an item takes as long as it is told to."""

    def __init__(self, item_us: float = 0.0) -> None:
        self.item_us = item_us
        self.row = torch.rand(WIDTH)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.item_us:
            end = time.perf_counter() + self.item_us / 1e6
            while time.perf_counter() < end:  # plant: loader
                pass
        return self.row


class Pause(torch.autograd.Function):
    """Identity whose backward pass is slow Python."""

    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.003 * HEAVY)
        return gradient


class Network(nn.Module):
    """A plain stack of layers, with the planted cost in its forward pass where one belongs there."""

    def __init__(self) -> None:
        super().__init__()
        count, width = (LAYERS * 8, 64) if PLANT in ("optimizer", "launches", "norms") else (LAYERS, WIDTH)
        self.first = nn.Linear(WIDTH, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        batch = self.first(batch)
        if PLANT == "backward" and PLAIN:
            batch = Pause.apply(batch)  # plant: backward
        for layer in self.layers:
            batch = torch.relu(layer(batch))
            if PLANT == "mask":
                batch = masked(batch)
        return batch


def masked(batch: torch.Tensor) -> torch.Tensor:
    """Negative values set to zero, by an index or without one."""
    if not PLAIN:
        return torch.where(batch > 0.5, batch * 0.9, batch)
    batch = batch.clone()
    batch[batch > 0.5] *= 0.9  # plant: mask
    return batch


def loader() -> Iterator[torch.Tensor]:
    """The batches, on the host."""
    item_us = {"loader": 60.0 * HEAVY, "workers": 200.0 * HEAVY}.get(PLANT, 0.0)
    workers = {("loader", False): 8, ("workers", True): 1, ("workers", False): 8}.get((PLANT, PLAIN), 0)
    pinned = not (PLANT == "copies" and PLAIN)
    if PLANT in ("loader", "workers"):
        yield from DataLoader(Rows(item_us), batch_size=64, num_workers=workers, pin_memory=True)
    else:
        batch = torch.rand(BATCH * (16 if PLANT == "copies" else 1), WIDTH)
        batch = batch.pin_memory() if pinned else batch
        while True:
            yield batch


def every_step(model: nn.Module, average: nn.Module, loss: torch.Tensor) -> None:
    """What the loop does beside training."""
    if PLANT == "average":
        mix(model, average)
    if PLANT == "norms":
        norms(model)
    if not PLAIN:
        return
    if PLANT == "collect":
        gc.collect()  # plant: collect
        torch.cuda.empty_cache()  # plant: collect
    elif PLANT == "cache":
        torch.cuda.empty_cache()  # plant: cache
    elif PLANT == "json":
        json.dumps(ROWS)  # plant: json
    elif PLANT == "tokens":
        count_words()
    elif PLANT == "sync":
        torch.cuda.synchronize()  # plant: sync
    elif PLANT == "print":
        print(loss.item(), ROWS[0] * (20 * HEAVY), file=io.StringIO(), flush=True)  # plant: print


def count_words() -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in WORDS:
        counts[word] = counts.get(word, 0) + 1  # plant: tokens
    return counts


def mix(model: nn.Module, average: nn.Module) -> None:
    """A moving average of the weights: a deep copy and Python arithmetic, or one fused call."""
    if PLAIN:
        state = copy.deepcopy(model.state_dict())  # plant: average
        for name, value in average.state_dict().items():
            value.lerp_(state[name], 0.01)
    else:
        torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)


def norms(model: nn.Module) -> float:
    """The norm of the gradients, read one by one or not at all."""
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    if PLAIN:
        return sum(gradient.norm().item() for gradient in gradients)  # plant: norms
    torch._foreach_norm(gradients)
    return 0.0


def main() -> float:
    torch.manual_seed(0)
    model = Network().to(DEVICE)
    average = copy.deepcopy(model).requires_grad_(False)
    foreach = not (PLANT == "optimizer" and PLAIN)
    optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
    started, done = 0.0, 0
    for number, host_batch in enumerate(loader()):
        batch = host_batch.to(DEVICE, non_blocking=True)  # plant: copies
        loss = model(batch).float().pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # plant: optimizer
        with torch.no_grad():
            every_step(model, average, loss)
        if number + 1 == WARM_UP:
            torch.cuda.synchronize()
            started = time.perf_counter()
        done = number + 1
        if done == WARM_UP + STEPS:
            break
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - started) / (done - WARM_UP)


def turns() -> dict[str, list[float]]:
    """Loop and twin in one process, so that both have the same machine, memory and clock rates."""
    global PLAIN
    took: dict[str, list[float]] = {"plain_us": [], "mended_us": []}
    for _ in range(TURNS):
        for PLAIN in (True, False):
            took["plain_us" if PLAIN else "mended_us"].append(main())
            gc.collect()
            torch.cuda.empty_cache()
    return took


if __name__ == "__main__":
    sys.stdout.write(json.dumps(turns() if VARIANT == "both" else {"step_us": main()}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # workers are in the middle of a batch
