"""Constants of the machine that a trace may not show, each with where its default was measured.

In: nothing, a Run's `meta`, or what `doctor --calibrate` measured. Out: a `Calibration`. Every number that may not have
been measured on this run is in this module, with the range within which it is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """Host and GPU constants; the defaults were read from traces of one H200 (CUDA 13.0, 16 CPU cores).

    "The trace's own wins": a value that the trace shows takes precedence over the default.
    """

    launch_latency_ns: int = 7_000
    """Call start to kernel start into an empty stream: 6.5-8 µs there (7.0 V100, 8-11.6 A100). The trace's own wins."""
    kernel_gap_ns: int = 1_000
    """End to start of queued kernels of one stream: 0.8-1.2 µs there (0.75 V100, 1.15-2 A100). The trace's own wins."""
    sync_return_ns: int = 6_000
    """Completion to return of a synchronize that waited: 3-9 µs. The trace's own wins."""
    sync_issue_ns: int = 3_000
    """A synchronize with nothing to wait for: 2-6 µs on the second of two in a row. The trace's own wins."""
    launch_issue_ns: int = 4_500
    """A kernel launch call under the profiler: 3.3-5.3 µs. The trace's own wins."""
    copy_issue_ns: int = 6_000
    """A non-blocking copy from pinned memory: the call takes 5-7 µs, whatever the size."""
    event_record_ns: int = 4_000
    """`cudaEventRecordWithFlags` 2.7-5.7 µs, plus the Python around it."""
    event_query_ns: int = 3_000
    """One `Event.query()` from Python. An estimate from the record's cost; not measured apart."""
    stream_wait_ns: int = 4_000
    """`Stream.wait_event` or `wait_stream` from Python. An estimate from the record's cost; not measured apart."""
    deferred_value_ns: int = 25_000
    """Keep one value for later: a copy on the GPU (one launch) and some Python calls. Estimated from launches."""
    ready_value_ns: int = 60_000
    """Send one kept value to pinned memory and ask for its event: three more launches' worth. An estimate."""
    stacked_read_ns: int = 30_000
    """Host time of stacking the kept losses, once per interval: one launch with its Python (30-60 µs profiled)."""
    prefetch_tensor_ns: int = 8_000
    """`record_stream` and bookkeeping per prefetched tensor. An estimate."""
    pinned_bytes_per_us: float = 50_000.0
    """Pinned host-to-device rate: 43 GB/s at 0.5 MB, 49 at 2 MB, 51 at 64 MB."""
    pinned_copy_ns: int = 1_000
    """Fixed part of one pinned copy on the GPU: a 2 KB copy takes 0.9 µs."""
    staging_bytes: int = 3 * MIB
    """A pageable source up to this size is copied ahead of a busy stream (2 MB: 139 µs either way); a larger one only
    after the stream's earlier work (4 MB to 64 MB behind 86 ms of work: the call took 86 ms and its usual time)."""
    pageable_bytes_per_us: float = 12_000.0
    """Pageable host-to-device rate with staging: 12 GB/s at 1 MB to 22 at 64 MB. Shown only: the trace's own win."""
    pin_main_bytes_per_us: float = 25_000.0
    """Copy into cached pinned memory on the main thread (no workers), by all threads for CPU operations: 12.6 MB of a
    fresh batch 0.2-0.5 ms, 51 MB about 2 ms. Only beside other jobs that kept cores and memory busy did the slowest of
    16 threads take 4-6 ms for 12.6 MB; no call to the driver and no page fault was behind it."""
    pin_main_tensor_ns: int = 20_000
    """Fixed cost of pinning one tensor on the main thread. An estimate; its copy alone takes 10 µs at 0.5 MB."""
    pin_thread_copy_factor: float = 1.3
    """The pin thread's copy of a batch against the training loop's own blocking copy of it: both read memory that was
    just mapped, and the pin thread has one core for it. 1.0 on a quiet machine (39 MB); on three busier H200 hosts
    25 MB batches came every 9 to 13 ms, which is 1.5 to 2 (timed: 5.0 ms of CPU for the copy, 4.2 ms between two)."""
    pin_thread_bytes_per_us: float = 8_000.0
    """The most a pin thread copies from memory that a worker has just handed over: 39 MB take 4.8 ms at best."""
    release_bytes_per_us: float = 8_000.0
    """Giving back the memory of a worker's batch: 39 MB take 3.6 ms in the loop that drops it. Taken as the most."""
    release_tensor_ns: int = 100_000
    """Fixed part of that for a tensor of its own mapping (from 128 KB): 110-170 µs at 0.5 MB, with Python around it."""
    usual_gap_ns: int = 60_000
    """Python between two `.to` calls, or between the loader and the first, when nothing is released: 20-60 µs."""
    loader_get_ns: int = 100_000
    """Main thread in `__next__` when a pin thread has the batch ready: a queue read."""
    pin_thread_contention: float = 0.6
    """Share of the pin thread's own work (unpacking a batch, giving back its memory) that delays a training loop which
    never waits: both need the interpreter. 0.3 on a quiet machine, 0.7-0.9 on one where four loops ran at once."""
    loader_work_limit_ns: int = 2_000_000
    """Main-thread work in `__next__` with workers: 0.65-1.9 ms measured. What exceeds this is waiting for a worker."""
    queue_limit: int = 1_000
    """Launches outstanding on one stream before a launch call blocks: about 1,000 (1,022 on a V100)."""
    row_overhead_ns: int = 900
    """What the profiler adds to the host per recorded row if not fitted: 540 µs on 583 rows per step."""
    unpack_ns: int = 1_000_000
    """Main thread in `__next__` to unpack a batch that a worker has ready: 1.0-1.1 ms whatever its size."""
    worker_start_ns: int = 50_000_000
    """To start an iterator's workers and end them: 117 ms at best with one and 200 with two or four, on a busy machine
    with two cores; taken low, because no quieter one was timed."""
    loader_cores: int | None = None
    """CPU cores for this rank's training thread and workers, None unknown."""
    loader_workers: int | None = None
    """`num_workers` of the run's loader, None unknown (then the trace's loader name decides)."""
    loader_batch_ns: int = 0
    """CPU time that the run's workers spent on a batch, all of them together; 0 unknown, which sets no limit."""

    @classmethod
    def from_run(cls, meta: Mapping[str, Any]) -> Calibration:
        """Defaults, overridden by what the run measured (`calibration`), its first loader's worker count and its cores.

        `meta` is run.json or one entry of its `ranks`. A missing key of `calibration` keeps its default; so does a
        value that is no finite positive number.
        """
        measured = meta.get("calibration")
        loaders = meta.get("loaders") or next(
            (rank.get("loaders") for rank in meta.get("ranks") or () if rank.get("loaders")), None
        )
        constants = _known_numbers(measured) if isinstance(measured, Mapping) else {}
        if isinstance(loaders, list) and loaders and isinstance(loaders[0], Mapping):
            constants |= _count(loaders[0].get("num_workers"), "loader_workers", 0) | _making(loaders[0].get("supply"))
        environment = meta.get("environment")
        if isinstance(environment, Mapping):
            constants |= _count(environment.get("cpu_count"), "loader_cores", 1)
        if constants.get("loader_cores"):
            ranks = meta.get("world_size")
            share = ranks if isinstance(ranks, int) and ranks > 1 else 1
            constants["loader_cores"] = max(1, constants["loader_cores"] // share)
        return cls(**constants)

    def pinned_duration_ns(self, size: int) -> int:
        """GPU time of a copy of `size` bytes from pinned memory."""
        return self.pinned_copy_ns + round(size * 1_000 / self.pinned_bytes_per_us)

    def with_factors(self, factors: Mapping[str, float]) -> Calibration:
        """Some constants multiplied: how a Monte Carlo sample is made."""
        changed: dict[str, Any] = {}
        for name, factor in factors.items():
            value = getattr(self, name)
            changed[name] = value * factor if isinstance(value, float) else round(value * factor)
        return replace(self, **changed)


RANGES: Mapping[str, tuple[float, float]] = {
    # Factors within which a constant is believed where the trace does not show it: as wide as the measurements
    # above differ, and a factor of two or three where the docstring says estimate.
    "pinned_bytes_per_us": (0.65, 1.1),
    "pin_main_bytes_per_us": (0.1, 1.5),
    "pin_main_tensor_ns": (0.5, 2.0),
    "pin_thread_copy_factor": (0.75, 1.55),
    "pin_thread_bytes_per_us": (0.7, 1.5),
    "loader_get_ns": (0.5, 3.0),
    "pin_thread_contention": (0.4, 1.6),
    "loader_batch_ns": (0.9, 1.1),
    "staging_bytes": (0.7, 1.3),
    "copy_issue_ns": (0.7, 1.5),
    "event_record_ns": (0.7, 2.0),
    "event_query_ns": (0.5, 2.0),
    "stream_wait_ns": (0.5, 2.0),
    "deferred_value_ns": (0.5, 2.0),
    "ready_value_ns": (0.5, 2.0),
    "stacked_read_ns": (0.5, 2.0),
    "prefetch_tensor_ns": (0.5, 2.0),
}


def _count(value: Any, name: str, least: int) -> dict[str, int]:
    """A count from a file that may hold anything, as {name: count}; empty where it is no count."""
    return {name: value} if isinstance(value, int) and not isinstance(value, bool) and value >= least else {}


def _making(supply: Any) -> dict[str, int]:
    """CPU time per batch, from what the workers did while the loop ran unprofiled."""
    told = supply if isinstance(supply, Mapping) else {}
    spent, made = told.get("worker_seconds"), told.get("batches")
    if not isinstance(spent, int | float) or not isinstance(made, int) or made <= 0 or not math.isfinite(spent):
        return {}
    return {"loader_batch_ns": max(0, round(1e9 * spent / made))}


def _known_numbers(measured: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that name a constant and hold a positive number; others are ignored."""
    kinds = {entry.name: entry.type for entry in fields(Calibration)}
    known: dict[str, Any] = {}
    for name, value in measured.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in kinds and number and math.isfinite(value) and value > 0:
            known[name] = float(value) if kinds[name] == "float" else round(value)
    return known
