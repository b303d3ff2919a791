"""Which thread runs the training loop, and which ones run its backward passes.

In: the rows of a Trace and its API calls. Out: thread ids. A trace states them nowhere; steps, waits and idle time all
need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import TraceTable
from tracelens.trace.tables import TraceRows, among

STEP, LOADER, OPTIMIZER = "ProfilerStep", "enumerate(DataLoader)", "Optimizer.step"
MARKS = ("user_annotation", "cpu_op")
"""Categories of annotations; before 2022 they were recorded as operators."""
BACKWARD = "autograd::engine::evaluate_function"
"""Begins the name of what autograd evaluates: `autograd::engine::evaluate_function: MulBackward0`."""
_SYNCS = ("device_sync", "stream_sync", "event_sync")
RUN = 3
"""Launches in a row that count as a backward pass; a thread that occasionally uploads a batch makes fewer."""
HANDED_SHARE = 0.9
"""Share of another thread's launches that must come while the main thread is in no call; two independent loops do not
reach it."""

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Threads:
    main: int | None
    autograd: tuple[int, ...]

    @property
    def loop(self) -> tuple[int, ...]:
        """The threads whose calls form one sequence: main waits while autograd issues the backward pass."""
        return self.autograd if self.main is None else (self.main, *self.autograd)


def find(rows: TraceRows, calls: TraceTable, ops: TraceTable) -> Threads:
    """By annotations and autograd's own rows.

    Where there are none (a C++ program), the thread that waits for the GPU is the main thread, and one that launches
    while the main thread is in no call is an autograd thread.
    """
    marks = rows.in_categories(MARKS)
    backward = rows.named(marks, lambda name: name.startswith(BACKWARD))
    workers = {int(thread) for thread in np.unique(rows.column("tid")[backward])}
    main = _main(rows, calls, ops, workers)
    if not workers and main is not None:
        workers = _taking_over(calls, ops, main)
    return Threads(main, tuple(sorted(workers - {main})))


def _main(rows: TraceRows, calls: TraceTable, ops: TraceTable, workers: set[int]) -> int | None:
    marks = rows.in_categories(MARKS)
    for prefix in (STEP, OPTIMIZER, LOADER):
        marked = rows.named(marks, lambda name, prefix=prefix: name.startswith(prefix))  # type: ignore[misc]
        if len(marked):
            return _most_frequent(rows.column("tid")[marked])
    issued = calls["thread"]
    meeting = issued[_meets_the_gpu(calls, ops)] if not workers else issued[:0]
    for threads in (meeting, issued, rows.column("tid")[rows.in_categories(("cpu_op",))]):
        others = threads[~np.isin(threads, list(workers))]
        if len(others):
            return _most_frequent(others)
    return _most_frequent(issued) if len(calls) else None


def _meets_the_gpu(calls: TraceTable, ops: TraceTable) -> Column:
    """Calls that bring batches, take values or wait, of threads that launch kernels: the loop makes them, a backward
    pass does not, and a thread that does nothing else uploads for the loop."""
    carries = _launches(calls, among(ops["direction"], "h2d", "d2h"))
    computing = np.unique(calls["thread"][_launches(calls, _computes(ops))])
    return (among(calls["kind"], *_SYNCS) | carries) & np.isin(calls["thread"], computing)


def _taking_over(calls: TraceTable, ops: TraceTable, main: int) -> set[int]:
    """Threads that launch kernels while the main thread is outside every call: they run its backward passes."""
    kernels = _launches(calls, _computes(ops))
    others = np.unique(calls["thread"][kernels])
    return {int(thread) for thread in others if thread != main and _hands_over(calls, kernels, main, thread)}


def _computes(ops: TraceTable) -> Column:
    return among(ops["kind"], "kernel", "collective")


def _launches(calls: TraceTable, chosen: Column) -> Column:
    """Which calls launch one of the chosen operations."""
    op = calls["op"]
    out = np.zeros(len(calls), dtype=np.bool_)
    out[op >= 0] = chosen[op[op >= 0]]
    return out


def _hands_over(calls: TraceTable, kernels: Column, main: int, other: int) -> bool:
    thread = calls["thread"]
    both = np.flatnonzero((thread == main) | (thread == other))
    mine = thread[both] == main
    start, end = calls["start_ns"][both], calls["end_ns"][both]
    busy_until = np.maximum.accumulate(np.where(mine, end, np.iinfo(np.int64).min))
    run = np.cumsum(mine)  # calls of the other thread between the same two calls of the main thread are one run
    launched = ~mine & kernels[both]
    in_run = np.bincount(run[launched], minlength=int(run[-1]) + 1)
    handed = launched & (in_run[run] >= RUN) & (start >= busy_until)
    return bool(handed.sum() >= HANDED_SHARE * launched.sum())


def _most_frequent(values: Column) -> int:
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts.argmax()])
