"""Micro-benchmarks of this machine's host and GPU costs. Runs in a child process, as `python -m` this module.

In: the machine. Out: one JSON object per line on stdout (see `measure`), each with everything measured so far: a
benchmark that hangs or crashes the process loses only itself and those after it. `capture.calibration` starts the child
and caches the result.

Keys with a unit in their name are constants of the replay (`replay.calibrate.Calibration`). A value that could not be
measured is left out, never 0. Each is a median over repetitions after a warm-up.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

MEGABYTE = 1_000_000
MIB = 1 << 20
REPETITIONS = 30
BUSY_MS = 50
"""Work that is queued on the GPU before a measured call: long compared with a call that does not wait for it."""
WAITED_NS = 5_000_000
"""A call that takes longer than this, a tenth of that work, has waited for the GPU."""
MOST_LAUNCHES = 4_096
COPY_BYTES = (64_000, 8 * MEGABYTE, 64 * MEGABYTE)
PIN_BYTES = (64_000, 6_300_000, 12_600_000)
BATCH_BYTES = (500_000, 12 * MEGABYTE, 39 * MEGABYTE)
ROWS_OPERATIONS = 200


@dataclass(frozen=True)
class Line:
    """A copy's time as a line over its size: `fixed_ns` plus the size divided by the rate."""

    fixed_ns: float
    bytes_per_us: float


def measure() -> Iterator[dict[str, Any]]:
    """{"gpu", "torch", "cuda", "skipped": {benchmark: why}, <constant>: <number>, …}, again before each benchmark.

    "gpu" is None without a GPU. A benchmark is in "skipped" until it has returned.
    """
    measured: dict[str, Any] = {"gpu": None, "torch": str(torch.__version__), "cuda": torch.version.cuda, "skipped": {}}
    if torch.cuda.is_available():
        measured["gpu"] = torch.cuda.get_device_name()
        measured["skipped"] = {benchmark.__name__.strip("_"): "not reached" for benchmark in _BENCHMARKS}
        for benchmark in _BENCHMARKS:
            name = benchmark.__name__.strip("_")
            measured["skipped"][name] = "it did not return"
            yield measured
            try:
                values = benchmark()
            except _EXPECTED_ERRORS as error:
                measured["skipped"][name] = str(error).splitlines()[0] if str(error) else repr(error)
                continue
            measured["skipped"].pop(name)
            measured |= {key: round(value, 1) for key, value in values.items() if value > 0}
    yield measured


def line(points: list[tuple[int, float]]) -> Line | None:
    """The line through three points (bytes, ns): the rate from the two larger, the fixed part from the smallest.

    None where the largest did not take longer than the middle one: then noise was measured.
    """
    (small, small_ns), (middle, middle_ns), (large, large_ns) = sorted(points)
    if large_ns <= middle_ns:
        return None
    rate = (large - middle) * 1_000 / (large_ns - middle_ns)
    return Line(small_ns - small * 1_000 / rate, rate)


# --------------------------------------------------------------------------------------------------------- benchmarks


def _median(call: Callable[[], Any], before: Callable[[], Any] | None = None, repetitions: int = REPETITIONS) -> float:
    """Median host nanoseconds of `call`; `before` runs untimed before each. The first fifth is warm-up."""
    taken = []
    for _ in range(repetitions + repetitions // 5):
        if before is not None:
            before()
        start = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - start)
    return statistics.median(taken[repetitions // 5 :])


def _each(call: Callable[[], Any], times: int = 100) -> float:
    """Host nanoseconds per call of `times` calls in a row, starting with an idle GPU."""

    def many() -> None:
        for _ in range(times):
            call()

    return _median(many, torch.cuda.synchronize) / times


def _busy() -> None:
    """Put `BUSY_MS` of work on the current stream."""
    torch.cuda.synchronize()
    torch.cuda._sleep(_cycles())


_CYCLES: list[int] = []


def _cycles() -> int:
    if not _CYCLES:
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for _ in range(2):  # the first launch loads the kernel
            first.record()
            torch.cuda._sleep(10_000_000)
            last.record()
            last.synchronize()
        _CYCLES.append(int(10_000_000 * BUSY_MS / first.elapsed_time(last)))
    return _CYCLES[0]


def _calls() -> dict[str, float]:
    event, stream = torch.cuda.Event(), torch.cuda.Stream()
    event.record()
    tensor = torch.ones(1024, device="cuda")
    return {
        "sync_issue_ns": _each(torch.cuda.synchronize),
        "event_record_ns": _each(event.record),
        "event_query_ns": _each(event.query),
        "stream_wait_ns": _each(lambda: stream.wait_event(event)),
        "prefetch_tensor_ns": _each(lambda: tensor.record_stream(stream)),
    }


def _reads() -> dict[str, float]:
    scalars = [torch.ones((), device="cuda") for _ in range(10)]
    return {"stacked_read_ns": _each(lambda: torch.stack(scalars), 20)}


def _copies() -> dict[str, float]:
    on_gpu, small = [], torch.ones(16_000).pin_memory()
    for size in COPY_BYTES:
        source = torch.ones(size // 4).pin_memory()
        target = torch.empty(size // 4, device="cuda")
        on_gpu.append((size, _gpu_ns(partial(target.copy_, source, non_blocking=True))))
    pageable = torch.ones(2 * MEGABYTE)
    constants = {
        "copy_issue_ns": _each(lambda: small.to("cuda", non_blocking=True), 20),
        "pageable_bytes_per_us": 8 * MEGABYTE * 1_000 / _median(lambda: pageable.to("cuda"), torch.cuda.synchronize),
    }
    fitted = line(on_gpu)
    return constants if fitted is None else constants | {
        "pinned_bytes_per_us": fitted.bytes_per_us, "pinned_copy_ns": fitted.fixed_ns
    }  # fmt: skip


def _gpu_ns(call: Callable[[], Any]) -> float:
    """GPU time per call of ten in a row: CUDA events around one short copy would measure themselves."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    taken = []
    for _ in range(REPETITIONS // 3):
        _busy()  # all ten are queued before the first begins
        first.record()
        for _ in range(10):
            call()
        last.record()
        last.synchronize()
        taken.append(float(first.elapsed_time(last)) * 1e6 / 10)
    return statistics.median(taken)


def _staging() -> dict[str, float]:
    """The largest pageable source whose non-blocking copy returns while the GPU is busy with earlier work."""
    largest = 0
    for half in range(1, 17):
        source = torch.ones(half * MIB // 8)
        _busy()
        start = time.perf_counter_ns()
        source.to("cuda", non_blocking=True)
        if time.perf_counter_ns() - start > WAITED_NS:
            break
        largest = half * MIB // 2
    torch.cuda.synchronize()
    return {"staging_bytes": float(largest)}


def _queue() -> dict[str, float]:
    """Number of launches behind a long kernel until one has to wait: the depth of the launch queue."""
    tensor = torch.ones(16, device="cuda")
    tensor.add_(1)
    _busy()
    for count in range(MOST_LAUNCHES):
        start = time.perf_counter_ns()
        tensor.add_(1)
        if time.perf_counter_ns() - start > WAITED_NS:
            torch.cuda.synchronize()
            return {"queue_limit": float(count)}
    torch.cuda.synchronize()
    return {}


def _pin_main() -> dict[str, float]:
    """As a loop without workers pins: a fresh batch each time, the pinned copy handed to the GPU and dropped."""
    points = [(size, _pin_fresh(size)) for size in PIN_BYTES]
    fitted = line(points)
    return {} if fitted is None else {
        "pin_main_bytes_per_us": fitted.bytes_per_us, "pin_main_tensor_ns": fitted.fixed_ns
    }  # fmt: skip


def _pin_fresh(size: int) -> float:
    fresh: list[torch.Tensor] = []
    pinned: list[torch.Tensor] = []

    def prepare() -> None:
        if pinned:
            pinned.pop().to("cuda", non_blocking=True)
        fresh[:] = [torch.rand(size // 4)]

    return _median(lambda: pinned.append(fresh[0].pin_memory()), prepare)


class _Batches(Dataset[torch.Tensor]):  # type: ignore[misc]  # torch is untyped for mypy here
    """Batches that a worker process hands over in shared memory."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return REPETITIONS

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((self._size // 4,), float(index))


def _worker_batches() -> dict[str, float]:
    """Pinning a batch that another process wrote, and giving its memory back."""
    pinning, releasing = [], []
    for size in BATCH_BYTES:
        pins, drops = zip(*_pin_and_drop(size), strict=True)
        pinning.append((size, statistics.median(pins[5:])))
        releasing.append((size, statistics.median(drops[5:])))
    pinned, released = line(pinning), line(releasing)
    constants = {} if pinned is None else {"pin_thread_bytes_per_us": pinned.bytes_per_us}
    if released is not None:
        constants |= {"release_bytes_per_us": released.bytes_per_us, "release_tensor_ns": released.fixed_ns}
    return constants


def _pin_and_drop(size: int) -> Iterator[tuple[int, int]]:
    for batch in DataLoader(_Batches(size), batch_size=None, num_workers=1):
        start = time.perf_counter_ns()
        pinned = batch.pin_memory()
        middle = time.perf_counter_ns()
        del batch
        yield middle - start, time.perf_counter_ns() - middle
        pinned.to("cuda", non_blocking=True)


def _ready_batches() -> dict[str, float]:
    """`next` of a loader whose pin thread has the batch ready."""
    loader = DataLoader(_Batches(400_000), batch_size=None, num_workers=2, pin_memory=True)
    iterator = iter(loader)
    taken = []
    for _ in range(REPETITIONS):
        time.sleep(0.02)
        start = time.perf_counter_ns()
        next(iterator)
        taken.append(time.perf_counter_ns() - start)
    return {"loader_get_ns": statistics.median(taken[5:])}


def _rows() -> dict[str, float]:
    """Host time that the profiler adds per event that it records on the host."""
    tensor = torch.ones(1024, device="cuda")

    def work() -> None:
        for _ in range(ROWS_OPERATIONS):
            tensor.add_(1)

    plain = _median(work, torch.cuda.synchronize)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as session:
        recorded = _median(work, torch.cuda.synchronize)
    events = session.profiler.kineto_results.events()
    on_host = sum(1 for event in events if event.device_type() == torch.autograd.DeviceType.CPU)
    return {"row_overhead_ns": (recorded - plain) / (on_host / (REPETITIONS + REPETITIONS // 5))}


_BENCHMARKS = (_calls, _reads, _copies, _staging, _queue, _pin_main, _worker_batches, _ready_batches, _rows)
_EXPECTED_ERRORS = (RuntimeError, OSError, AttributeError, TypeError, ValueError)
"""Out of memory, a broken CUDA context, no shared memory, a name that this torch does not have."""

if __name__ == "__main__":
    for progress in measure():
        print(json.dumps(progress), flush=True)
