"""What it takes to give a batch of a DataLoader's worker back, and whom that stops: the `unpinned` loop, on the host.

    python tests/owners/released_batches.py

A batch of 50 MB in shared memory is copied, as an upload copies it, and its name is cleared: in the training thread, as
in `images = images.to(device)`, and in another one, as pinning does, while the training thread runs Python that lets go
of the interpreter all the time. Prints CPU time, ms, which the machine's other load does not count for.
Without a GPU: nothing is uploaded, and nothing is pinned.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator

import torch
from torch.utils.data import DataLoader, Dataset

SHAPE = (64, 3, 256, 256)
WARM_UP, BATCHES = 4, 10


class Images(Dataset[torch.Tensor]):
    """As many as anybody asks for."""

    def __init__(self) -> None:
        self.images = torch.rand(16, *SHAPE[1:])

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.images[index % len(self.images)]


def main() -> None:
    torch.set_num_threads(1)
    sys.setswitchinterval(60)  # who holds the interpreter keeps it until it lets go itself
    batches = iter(DataLoader(Images(), SHAPE[0], num_workers=1))
    copied = torch.empty(SHAPE)
    parts = [in_this_thread(batches, copied) for _ in range(WARM_UP + BATCHES)][WARM_UP:]
    copy, release = (statistics.median(part) for part in zip(*parts, strict=True))
    ordinary = statistics.median(cleared([copied.clone()]) for _ in range(BATCHES))
    print(f"copy {copy:.1f}, give back {release:.1f}, as much ordinary memory {ordinary:.1f}")
    for what, released in (("gives it back", cleared), ("copies, which lets go of the interpreter", _copied)):
        rounds = [in_another_thread(next(batches), released) for _ in range(BATCHES)]
        took = statistics.median(took for took, _ in rounds)
        print(f"another thread {what} in {took:.1f}; rounds of this one meanwhile: {[count for _, count in rounds]}")


def in_this_thread(batches: Iterator[torch.Tensor], copied: torch.Tensor) -> tuple[float, float]:
    """The copy, and giving back, ms."""
    batch = [next(batches)]
    began = time.thread_time()
    copied.copy_(batch[0])
    return 1e3 * (time.thread_time() - began), cleared(batch)


def in_another_thread(tensor: torch.Tensor, released: Callable[[list[torch.Tensor]], float]) -> tuple[float, int]:
    """How long it takes there, ms, and how often this thread gets to run in that time."""
    batch, done = [tensor], list[tuple[float, float, float]]()
    del tensor  # else this function holds it

    def run() -> None:
        time.sleep(0.02)
        began = time.perf_counter()
        done.append((released(batch), began, time.perf_counter()))

    other = threading.Thread(target=run)
    other.start()
    rounds = []
    while not done:
        rounds.append(time.perf_counter())
        time.sleep(0)
    other.join()
    took, began, ended = done[0]
    return took, sum(began < at < ended for at in rounds)


def cleared(batch: list[torch.Tensor]) -> float:
    """CPU time, ms."""
    began = time.thread_time()
    batch.clear()
    return 1e3 * (time.thread_time() - began)


def _copied(batch: list[torch.Tensor]) -> float:
    began = time.thread_time()
    batch[0].clone()
    return 1e3 * (time.thread_time() - began)


if __name__ == "__main__":
    main()
