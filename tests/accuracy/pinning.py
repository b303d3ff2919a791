"""Where does the time go when the training thread pins its own batches? And what do workers' batches cost it?

In: nothing. Out: `measured()`: medians in µs per step of each part of a step, for the ways a batch can reach the GPU.
A tiny training loop each: a batch is made, handed over, some GPU work follows; every part is timed on the host.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from tests.accuracy.arm import _host_allocations as host_allocations
from tests.accuracy.stats import median

STEPS, WARMUP = 40, 15
IMAGE = 128
BATCHES = (16, 64, 192)


class Pictures(Dataset[Any]):
    """Pictures of 196 KB, copied from a pool."""

    def __init__(self, length: int) -> None:
        self.pool = torch.rand(64, 3, IMAGE, IMAGE)
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.pool[index % 64] * 1.5


class Work:
    """GPU work of some milliseconds, with a backward pass on the autograd thread as every training loop has one."""

    def __init__(self, size: int, depth: int) -> None:
        layers = [torch.nn.Linear(size, size) for _ in range(depth)]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.inputs = torch.randn(2048, size, device="cuda")

    def run(self, batch: torch.Tensor) -> torch.Tensor:
        loss = self.model(self.inputs).mean() + batch.flatten()[0]
        loss.backward()
        return loss


def measured() -> dict[str, Any]:
    """All of it; about 30 s."""
    found: dict[str, Any] = {"threads": torch.get_num_threads(), "pool_bytes": 64 * 3 * IMAGE * IMAGE * 4}
    torch.ones(1, device="cuda")
    for batch in BATCHES:
        size = f"{batch * 3 * IMAGE * IMAGE * 4 / 1e6:.1f} MB"
        found[f"pin only, {size}"] = _parts(_pin_only(batch))
        found[f"pin fresh memory, {size}"] = _parts(_pin_fresh(batch))
        for pin in (False, True):
            for every in (1, 10):
                key = f"loop, {size}, {'pinned' if pin else 'pageable'}, read every {every}"
                found[key] = _loop(batch, pin=pin, every=every, workers=0)
    size = f"{64 * 3 * IMAGE * IMAGE * 4 / 1e6:.1f} MB"
    for pin in (False, True):
        found[f"loop, {size}, {'pinned' if pin else 'pageable'}, 1 thread"] = _loop(64, pin=pin, every=1, threads=1)
    for batch in (2, *BATCHES):
        size = f"{batch * 3 * IMAGE * IMAGE * 4 / 1e6:.1f} MB"
        for pin in (False, True):
            key = f"workers, {size}, {'pinned' if pin else 'pageable'}"
            found[key] = _loop(batch, pin=pin, every=1, workers=8)
    return found


def _loop(batch: int, *, pin: bool, every: int, workers: int = 0, threads: int | None = None) -> dict[str, float]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        return _parts(_training(batch, pin, every, workers))
    finally:
        torch.set_num_threads(before)


Part = tuple[str, int]


def _parts(steps: Iterator[list[Part]]) -> dict[str, float]:
    seen: dict[str, list[float]] = defaultdict(list)
    for number, parts in enumerate(steps):
        if number == WARMUP:
            allocations = host_allocations(torch)
        if number >= WARMUP:
            for name, ns in parts:
                seen[name].append(ns / 1e3)
    found = {name: round(median(values), 1) for name, values in seen.items()}
    found |= {f"{name} mean": round(sum(values) / len(values), 1) for name, values in seen.items()}
    if allocations is not None:
        found["pinned allocations"] = (host_allocations(torch) or 0) - allocations
    return found


def _timed(parts: list[Part], name: str, work: Callable[..., Any], *args: Any) -> Any:
    started = time.perf_counter_ns()
    result = work(*args)
    parts.append((name, time.perf_counter_ns() - started))
    return result


def _pin_only(batch: int) -> Iterator[list[Part]]:
    source = torch.rand(batch, 3, IMAGE, IMAGE)
    for _ in range(STEPS):
        parts: list[Part] = []
        _timed(parts, "pin", source.pin_memory)
        yield parts


def _pin_fresh(batch: int) -> Iterator[list[Part]]:
    pictures = Pictures(1 << 20)
    for _ in range(STEPS):
        parts: list[Part] = []
        items = [pictures[index] for index in range(batch)]
        source = _timed(parts, "collate", torch.stack, items)
        pinned = _timed(parts, "pin", source.pin_memory)
        pinned.to("cuda", non_blocking=True)
        yield parts


def _training(batch: int, pin: bool, every: int, workers: int) -> Iterator[list[Part]]:
    work = Work(2048, 12)
    loader = DataLoader(Pictures((STEPS + 1) * batch), batch, pin_memory=pin, num_workers=workers)
    batches = iter(loader)
    kept: list[torch.Tensor] = []
    pictures = None
    for step in range(STEPS):
        parts: list[Part] = []
        following = _timed(parts, "next", next, batches)
        started = time.perf_counter_ns()
        pictures, following = following, None  # the batch before this one is given back here
        parts.append(("release", time.perf_counter_ns() - started))
        moved = _timed(parts, "to", _moved, pictures, pin)
        kept.append(_timed(parts, "launch", work.run, moved).detach())
        if step % every == every - 1:
            _timed(parts, "read", _read, kept)
            kept = []
        yield parts


def _moved(batch: torch.Tensor, unblocked: bool) -> torch.Tensor:
    return batch.to("cuda", non_blocking=unblocked)


def _read(values: list[torch.Tensor]) -> list[float]:
    return torch.stack(values).tolist()
