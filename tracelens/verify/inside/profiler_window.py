"""A profiler window in a run whose times are not used: what waits, what overlaps, how memory grows.

In: one call per finished step. Out: a Chrome trace of a few steps, memory at step ends outside of it, and CPU time of
the training thread. The profiler is started and stopped at step ends, on one thread, never inside backward,
never beside another profiler, and never exported empty.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import torch

from tracelens.launch.inside import profiler_options


class ProfilerWindow:
    """`first` is the step after which recording begins; `size` steps are recorded; all others sample memory."""

    def __init__(self, first: int, warmup: int, size: int, path: str) -> None:
        self._starts, self._ends = first - warmup, first + size
        self._warmup, self._size, self._path = warmup, size, path
        self._step = 0
        self._thread: int | None = None
        self._profiler: torch.profiler.profile | None = None
        self._cpu: list[tuple[int, int, int, int]] = []
        self.memory: list[tuple[int, int]] = []
        self.trace: str | None = None
        self.reason: str | None = None

    def tick(self) -> None:
        """A step has ended."""
        self._step += 1
        if self._step == 1:
            self._thread = threading.get_ident()
        if self._step <= self._starts or self._step > self._ends:
            self._sample()
        if self._step == self._starts:
            self._start()
        elif self._profiler is not None:
            self._advance()

    def finish(self) -> dict[str, Any]:
        if self._profiler is not None:
            self._close("the script ended inside the window")
        return {
            "trace": self.trace,
            "reason": self.reason,
            "memory": self.memory,
            "memory_of": "device" if torch.cuda.is_initialized() else "host",
            "peak_bytes": _peak_bytes(),
            "cpu": self._cpu_time(),
        }

    def _start(self) -> None:
        self.reason = self._obstacle()
        if self.reason is not None:
            return
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        schedule = torch.profiler.schedule(wait=0, warmup=self._warmup, active=self._size, repeat=1)
        self._profiler = torch.profiler.profile(activities=activities, schedule=schedule, **profiler_options.options())
        self._profiler.start()
        profiler_options.without_event_objects(self._profiler)

    def _obstacle(self) -> str | None:
        if torch._C._current_graph_task_id() != -1:
            return "the optimizer steps inside backward, where a profiler cannot be started"
        if torch.autograd._profiler_enabled():
            return "the script records a profile of its own"
        return None

    def _advance(self) -> None:
        assert self._profiler is not None
        if threading.get_ident() != self._thread:
            self.reason, self._profiler = "the training thread changed inside the window", None
        elif self._step == self._ends:
            self._close(None)  # waits for the device itself, after the last step's end
        else:
            self._profiler.step()

    def _close(self, reason: str | None) -> None:
        profiler, self._profiler, self.reason = self._profiler, None, reason
        assert profiler is not None
        if not torch.autograd._profiler_enabled():
            self.reason = reason or "the profiler was stopped by someone else"
            return
        profiler.stop()
        results = profiler.profiler.kineto_results if profiler.profiler else None
        if reason is None and results is not None and results.trace_start_ns() != 0:
            profiler.export_chrome_trace(self._path)
            self.trace = self._path if os.path.exists(self._path) else None
            self.reason = None if self.trace else "the profiler wrote no file"

    def _sample(self) -> None:
        if torch.cuda.is_initialized():
            self.memory.append((self._step, torch.cuda.memory_allocated()))
        if self._step <= self._starts:
            self._cpu.append((self._step, time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns()))

    def _cpu_time(self) -> dict[str, int] | None:
        """Over the unrecorded steps before the window: wall time and the CPU time of the training thread and of all."""
        timed_steps = self._cpu[len(self._cpu) // 4 :]
        if len(timed_steps) < 2:
            return None
        (first, *start), (last, *end) = timed_steps[0], timed_steps[-1]
        wall, thread, process = (b - a for a, b in zip(start, end, strict=True))
        return {"steps": last - first, "wall_ns": wall, "thread_ns": thread, "process_ns": process}


def _peak_bytes() -> int | None:
    if torch.cuda.is_initialized():
        return int(torch.cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
