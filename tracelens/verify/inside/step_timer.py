"""Step times of one process, without a wait in the loop.

In: one call per finished step. Out: host times of all step ends, and after warm-up a series of CUDA events, one per
block of steps, read after the last step.
"""

from __future__ import annotations

import time
from typing import Any

import torch


class StepTimer:
    """`warmup` steps are not timed; every `block` steps after them an event is recorded."""

    def __init__(self, warmup: int, block: int) -> None:
        self._warmup = warmup
        self._block = block
        self._steps = 0
        self.host_ns: list[int] = []
        self._events: list[tuple[int, Any]] = []

    def tick(self) -> None:
        """A step has ended."""
        self.host_ns.append(time.perf_counter_ns())
        self._steps += 1
        past = self._steps - self._warmup
        if past >= 0 and past % self._block == 0:
            self._mark()

    def finish(self) -> dict[str, Any]:
        """Wait for the device (the only time) and read the events."""
        if torch.cuda.is_initialized() and self._steps > self._warmup and not self._at_block_end():
            self._mark()
        if self._events:
            self._events[-1][1].synchronize()
        elapsed = [
            {"first": start, "last": end, "ns": round(a.elapsed_time(b) * 1e6)}
            for (start, a), (end, b) in zip(self._events, self._events[1:])  # noqa: B905 -- one shorter on purpose
        ]
        return {"warmup": self._warmup, "block": self._block, "host_ns": self.host_ns, "cuda_blocks": elapsed}

    def _at_block_end(self) -> bool:
        return (self._steps - self._warmup) % self._block == 0

    def _mark(self) -> None:
        if not torch.cuda.is_initialized():
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream())
        self._events.append((self._steps, event))
