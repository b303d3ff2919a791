"""Where each training step begins and ends on the host clock.

In: annotations, API calls, GPU work. Out: the `steps` table and its source: `ProfilerStep` marks (ours or the
user's), DataLoader or optimizer annotations, repetition of the launch sequence (`cycle.py`), or the span as one step.
A step is kept when it is complete and its timings are not distorted by attribution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import RankRecording, StepSource, TraceTable
from tracelens.trace import cuda_api, launch_cycle
from tracelens.trace.idle_gaps import LAUNCH_NS
from tracelens.trace.tables import TraceRows, among
from tracelens.trace.threads import LOADER, MARKS, OPTIMIZER, STEP, Threads

Column = npt.NDArray[Any]

_NUMBER = re.compile(r"ProfilerStep[#* ]*(\d{1,15})")
CONTIGUOUS = 0.1
"""A pause between two marks below this share of a step is the profiler's own and belongs to the step before it."""
INSTALLING_NS = 200_000
"""So long a pause before the first attributed step is the installing of attribution and of the line clock (one to five
milliseconds), and belongs to no step. Between two marks of ours lie tens of microseconds."""
PARTIAL = 0.5
"""A first or last step with less than this share of the median step's launches is cut off (an open last mark)."""


def find(
    rows: TraceRows, calls: TraceTable, ops: TraceTable, threads: Threads, recording: RankRecording | None
) -> tuple[TraceTable, StepSource]:
    """The steps, and what told them apart."""
    marked = _profiler_steps(rows, threads, recording.attributed_steps if recording else ())
    if len(marked):
        ours = recording is not None and recording.meta.get("step_marks") == "tracelens"
        attributed = marked.pop("attributed")
        whole = _whole(marked, _launches(calls, threads), attributed)
        return _frame(marked, whole, attributed), "tracelens" if ours else "profiler_step"
    for boundaries, source in _by_annotation(rows, threads):
        if len(boundaries) >= 2:
            return _between(boundaries), source
    boundaries = launch_cycle.boundaries(calls, ops)
    if len(boundaries) >= 2:
        return _between(boundaries), "cycle"
    return _span(rows, calls, ops), "none"


def _profiler_steps(rows: TraceRows, threads: Threads, attributed_steps: Sequence[int]) -> dict[str, Column]:
    marks = rows.named(rows.in_categories(MARKS), lambda name: name.startswith(STEP))
    marks = marks[rows.column("tid")[marks] == threads.main]
    numbers = [int(match[1]) if (match := _NUMBER.match(name)) else at for at, name in enumerate(rows.names(marks))]
    start, end = rows.column("start_ns")[marks], rows.column("end_ns")[marks].copy()
    if len(marks):
        filled = end > start
        start, end, numbers = start[filled], end[filled], list(np.array(numbers)[filled])
    attributed = np.isin(numbers, attributed_steps)
    if len(start) > 1:
        pause = start[1:] - end[:-1]
        joined = pause < CONTIGUOUS * np.median(end - start)  # an overlap is a negative pause: the next mark wins
        joined &= (pause < INSTALLING_NS) | (attributed[:-1] == attributed[1:])
        end[:-1][joined] = start[1:][joined]
    found = {"number": np.array(numbers, dtype=np.int64), "start_ns": start, "end_ns": end, "attributed": attributed}
    return found if len(start) else {}


def _launches(calls: TraceTable, threads: Threads) -> Column:
    chosen = among(calls["kind"], *cuda_api.STARTS_WORK) & np.isin(calls["thread"], threads.loop)
    return calls["start_ns"][chosen]


def _whole(marked: dict[str, Column], launches: Column, attributed: Column) -> Column:
    """Every step but a first or last one that was cut off."""
    count = np.searchsorted(launches, marked["end_ns"]) - np.searchsorted(launches, marked["start_ns"])
    length = marked["end_ns"] - marked["start_ns"]
    work = count if count.any() else length  # without GPU calls, the durations must do
    whole = np.ones(len(work), dtype=np.bool_)
    for edge in {0, len(work) - 1}:
        others = np.delete(work, edge)
        others = others[~np.delete(attributed, edge)] if not attributed.all() else others
        if len(others) and work[edge] < PARTIAL * np.median(others):
            whole[edge] = False
    return whole


def _by_annotation(rows: TraceRows, threads: Threads) -> list[tuple[Column, StepSource]]:
    """Boundaries by DataLoader and optimizer, the better one first: with accumulation, a step has many batches."""
    marks = rows.in_categories(MARKS)
    marks = marks[rows.column("tid")[marks] == threads.main]
    batches = np.unique(rows.column("start_ns")[rows.named(marks, lambda name: name.startswith(LOADER))])
    updates = rows.named(marks, lambda name: name.startswith(OPTIMIZER))
    if len(updates):  # several optimizers: the least frequent one sets the pace
        codes, counts = np.unique(rows.column("name")[updates], return_counts=True)
        updates = updates[rows.column("name")[updates] == codes[counts.argmin()]]
    ends = np.unique(rows.column("end_ns")[updates])
    accumulates = len(ends) >= 2 and len(batches) > 1.5 * len(ends)
    by_batch: tuple[Column, StepSource] = (batches, "dataloader")
    by_update: tuple[Column, StepSource] = (ends, "optimizer")
    return [by_update, by_batch] if accumulates else [by_batch, by_update]


def _between(boundaries: Column) -> TraceTable:
    """Complete steps lie between two boundaries; what is before the first and after the last is not one."""
    edges = {"number": np.arange(len(boundaries) - 1), "start_ns": boundaries[:-1], "end_ns": boundaries[1:]}
    kept = np.ones(len(boundaries) - 1, dtype=np.bool_)
    return _frame(edges, kept, ~kept)


def _span(rows: TraceRows, calls: TraceTable, ops: TraceTable) -> TraceTable:
    """One step from the first to the last thing that happened on the GPU (on the host, without one).

    It begins no earlier than a launch takes: what the GPU did before its first recorded operation was not recorded.
    """
    tables = [table for table in (calls, ops) if len(table)]
    if tables:
        start = min(int(table["start_ns"].min()) for table in tables)
        end = max(int(table["end_ns"].max()) for table in tables)
        start = max(start, int(ops["start_ns"].min()) - LAUNCH_NS) if len(ops) else start
    else:
        start, end = int(rows.column("start_ns").min()), int(rows.column("end_ns").max())
    return _between(np.array([start, max(end, start + 1)], dtype=np.int64))


def _frame(marked: dict[str, Column], whole: Column, attributed: Column) -> TraceTable:
    kept = whole & ~attributed
    return TraceTable({**marked, "kept": kept, "attributed": attributed})
