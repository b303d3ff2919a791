"""Measures what a DataLoader's workers can deliver: their CPU time and the batches they made, between two readings.

In: a DataLoader's live iterator. Out: plain numbers for run.json. A loop that always finds a batch ready does not show
how much faster its workers could be, but their CPU time does: W workers that need c seconds of CPU per batch deliver
one batch per c ÷ W seconds at best. Linux only, as it needs /proc; elsewhere there is no reading.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

FEWEST_BATCHES = 8
"""Fewer are not reported: workers make their first batches while they still import modules."""
_UTIME, _STIME = 11, 12
"""Fields of /proc/PID/stat, counted behind the name in parentheses, which may hold any character."""


class WorkerReading(NamedTuple):
    """`made`: batches that the workers have finished. `ready`: those of them that the loop has not taken yet."""

    at_ns: int
    made: int
    ready: int
    worker_ticks: int


class WorkerThroughput:
    """Readings of the DataLoaders in use, by a key that the caller chooses."""

    def __init__(self) -> None:
        # weak: a strong reference would keep an epoch's workers alive
        self._first: dict[Any, tuple[weakref.ref[Any], WorkerReading]] = {}

    def began(self, key: Any, iterator: Any) -> None:
        """Take the first reading of an iterator, at its first batch; it replaces an earlier iterator of this `key`."""
        reading = read(iterator)
        if reading is not None:
            self._first[key] = (weakref.ref(iterator), reading)

    def so_far(self) -> dict[Any, dict[str, Any]]:
        """By key, since the first reading: `seconds`, `batches` made, `worker_seconds` of CPU, batches `ready` now."""
        totals = {}
        for key, (reference, first) in self._first.items():
            iterator = reference()
            last = None if iterator is None else read(iterator)
            if last is not None and last.made - first.made >= FEWEST_BATCHES:
                totals[key] = {
                    "seconds": round((last.at_ns - first.at_ns) / 1e9, 3),
                    "batches": last.made - first.made,
                    "worker_seconds": round((last.worker_ticks - first.worker_ticks) / os.sysconf("SC_CLK_TCK"), 2),
                    "ready": last.ready,
                }
        return totals


def read(iterator: Any) -> WorkerReading | None:
    """A reading now; None without workers, without /proc, or where this torch has other names for its queues."""
    with suppress(AttributeError, NotImplementedError, OSError, ValueError, IndexError):
        ticks = sum(_cpu_ticks(worker.pid) for worker in iterator._workers)
        queues = {id(queue): queue for queue in (iterator._worker_result_queue, iterator._data_queue)}
        # Batches that arrived before an earlier one are kept by the iterator, beside the task's worker id.
        early = sum(len(task) > 1 for task in list(iterator._task_info.values()))
        ready = early + sum(queue.qsize() for queue in queues.values())
        return WorkerReading(time.perf_counter_ns(), iterator._rcvd_idx + ready, ready, ticks)
    return None


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[_UTIME]) + int(fields[_STIME])
