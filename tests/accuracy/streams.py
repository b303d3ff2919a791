"""The seeds' scheme 1 in PyTorch: forward on one stream, backward on another. What does it do, what does it buy?

In: nothing. Out: `measured()`: step time of each variant, and on which streams its kernels ran. Variants of one loop
(a small transformer, pinned batches): everything on the default stream; forward and backward each on a stream of
their own with the events that the data needs; batches copied one step ahead on a copy stream; both.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.accuracy.stats import median

STEPS, WARMUP, ROUNDS = 40, 10, 3
SIZES = {"small": (256, 4, 64), "large": (768, 6, 128)}
SAMPLES = 32


class Loop:
    """Model, optimizer and pinned batches; the variants differ in streams only."""

    def __init__(self, width: int, depth: int, length: int) -> None:
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True)
        self.model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.batches = [torch.randn(SAMPLES, length, width).pin_memory() for _ in range(4)]
        self.forward_stream, self.backward_stream = torch.cuda.Stream(), torch.cuda.Stream()
        self.copy_stream = torch.cuda.Stream()
        self.ahead: tuple[torch.Tensor, torch.cuda.Event] | None = None

    def plain(self, step: int) -> None:
        loss = self.model(self._copy(step)).square().mean()
        self._backward(loss)

    def split(self, step: int) -> None:
        """Forward and backward on streams of their own, as drawn in the seed."""
        self._split(self._copy(step))

    def prefetched(self, step: int) -> None:
        loss = self.model(self._prefetched(step)).square().mean()
        self._backward(loss)

    def both(self, step: int) -> None:
        self._split(self._prefetched(step))

    def _split(self, batch: torch.Tensor) -> None:
        main = torch.cuda.current_stream()
        self.forward_stream.wait_stream(main)
        with torch.cuda.stream(self.forward_stream):
            loss = self.model(batch).square().mean()
        self.backward_stream.wait_stream(self.forward_stream)
        with torch.cuda.stream(self.backward_stream):
            self._backward(loss)
        main.wait_stream(self.backward_stream)

    def _backward(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def _copy(self, step: int) -> torch.Tensor:
        return self.batches[step % 4].to("cuda", non_blocking=True)

    def _prefetched(self, step: int) -> torch.Tensor:
        current, copied = self.ahead or self._fetch(step)
        self.ahead = self._fetch(step + 1)
        torch.cuda.current_stream().wait_event(copied)
        current.record_stream(torch.cuda.current_stream())
        return current

    def _fetch(self, step: int) -> tuple[torch.Tensor, torch.cuda.Event]:
        with torch.cuda.stream(self.copy_stream):
            batch = self._copy(step)
            copied = torch.cuda.Event()
            copied.record()
        return batch, copied


def measured() -> dict[str, Any]:
    """Per size: step times in µs of each variant, three rounds interleaved, and kernels per stream by pass."""
    found: dict[str, Any] = {}
    for name, (width, depth, length) in SIZES.items():
        loop = Loop(width, depth, length)
        variants = {"plain": loop.plain, "split": loop.split, "prefetched": loop.prefetched, "both": loop.both}
        times: dict[str, list[float]] = {key: [] for key in variants}
        for _ in range(ROUNDS):
            for key, step in variants.items():
                times[key].append(round(_time(step), 1))
        found[name] = {
            "step_us": times,
            "ratio": {key: round(median(values) / median(times["plain"]), 4) for key, values in times.items()},
            "kernels": {key: _kernels(variants[key]) for key in ("plain", "split")},
        }
    return found


def _time(step: Callable[[int], None]) -> float:
    for number in range(WARMUP):
        step(number)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for number in range(STEPS):
        step(number)
        torch.cuda.synchronize()
    return (time.perf_counter() - started) / STEPS * 1e6


def _kernels(step: Callable[[int], None]) -> dict[str, Any]:
    """Kernels per stream: launched by the training thread (forward, optimizer) or the autograd thread (backward)."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        step(0)
        torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name, encoding="utf-8") as source:
            events = json.load(source)["traceEvents"]
    threads = {}
    backward = {row["tid"] for row in events if "autograd::engine" in str(row.get("name"))}
    for row in events:
        if row.get("cat") in ("cuda_runtime", "cuda_driver"):
            threads[row["args"].get("correlation")] = row["tid"]
    seen: Counter[str] = Counter()
    spans: dict[int, list[tuple[float, float]]] = {}
    for row in events:
        if row.get("cat") == "kernel":
            passed = "backward" if threads.get(row["args"]["correlation"]) in backward else "training thread"
            seen[f"{passed}: stream {row['args']['stream']}"] += 1
            spans.setdefault(row["args"]["stream"], []).append((row["ts"], row["ts"] + row["dur"]))
    return {"per_stream": dict(seen), "overlap_us": round(_overlap(list(spans.values())), 1)}


def _overlap(streams: list[list[tuple[float, float]]]) -> float:
    """Time in which kernels of two streams run at once."""
    marks = sorted((at, kind) for spans in streams for start, end in spans for at, kind in ((start, 1), (end, -1)))
    running, before, total = 0, 0.0, 0.0
    for at, kind in marks:
        total += at - before if running > 1 else 0.0
        running, before = running + kind, at
    return total
