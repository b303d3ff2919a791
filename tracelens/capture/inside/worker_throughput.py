"""What a DataLoader's workers can deliver: their CPU time and the batches that they made, between two readings.

In: a loader's live iterator. Out: plain numbers for run.json. A loop that always finds a batch ready does not show how
much faster its workers could be; the time that they work does: W workers that need c of CPU per batch deliver one
every c ÷ W at best. Linux only, where /proc tells a process's CPU time; elsewhere nothing is known.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

FEWEST_BATCHES = 8
"""Fewer say nothing: workers make their first ones while they still import."""
_UTIME, _STIME = 11, 12
"""Where /proc/PID/stat has them, behind the name in parentheses, which may hold anything."""


class WorkerReading(NamedTuple):
    """`made`: batches that the workers have finished, delivered or not. `ready`: those of them not yet asked for."""

    at_ns: int
    made: int
    ready: int
    worker_ticks: int


class WorkerThroughput:
    """Readings of the loaders in use, by the key that their owner gives them."""

    def __init__(self) -> None:
        # a strong reference would keep an epoch's workers alive
        self._first: dict[Any, tuple[weakref.ref[Any], WorkerReading]] = {}

    def began(self, key: Any, iterator: Any) -> None:
        """An iterator has handed out its first batch; the last one of each key counts."""
        reading = read(iterator)
        if reading is not None:
            self._first[key] = (weakref.ref(iterator), reading)

    def so_far(self) -> dict[Any, dict[str, Any]]:
        """By key, what its workers did since: `seconds`, `batches` made, `worker_seconds` of CPU, batches `ready`."""
        found = {}
        for key, (reference, first) in self._first.items():
            iterator = reference()
            last = None if iterator is None else read(iterator)
            if last is not None and last.made - first.made >= FEWEST_BATCHES:
                found[key] = {
                    "seconds": round((last.at_ns - first.at_ns) / 1e9, 3),
                    "batches": last.made - first.made,
                    "worker_seconds": round((last.worker_ticks - first.worker_ticks) / os.sysconf("SC_CLK_TCK"), 2),
                    "ready": last.ready,
                }
        return found


def read(iterator: Any) -> WorkerReading | None:
    """None without workers, where the system does not tell, or where this torch names its queues otherwise."""
    with suppress(AttributeError, NotImplementedError, OSError, ValueError, IndexError):
        ticks = sum(_cpu_ticks(worker.pid) for worker in iterator._workers)
        queues = {id(queue): queue for queue in (iterator._worker_result_queue, iterator._data_queue)}
        early = sum(len(told) > 1 for told in list(iterator._task_info.values()))  # out of turn, kept by the iterator
        ready = early + sum(queue.qsize() for queue in queues.values())
        return WorkerReading(time.perf_counter_ns(), iterator._rcvd_idx + ready, ready, ticks)
    return None


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return int(fields[_UTIME]) + int(fields[_STIME])
