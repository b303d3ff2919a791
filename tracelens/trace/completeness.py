"""What of a recording is missing, and which of its steps are complete on the host and on the GPU.

In: columns, calls, GPU work and steps of one rank. Out: a `Completeness` of the Trace, a `Coverage` of the Timeline.
Kineto writes framework operations first, then API calls and GPU work, and these in the order of the driver's buffers,
which need not be the order of time. A file that ends early therefore lacks calls and GPU work anywhere in the window.
Two relations inside the file show where: each launch has GPU work of its correlation id, and a framework operation that
launches work in one step does so in all. A file in which this cannot be examined has no step that is known complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.messages import say
from tracelens.model import Completeness, Coverage, StepSource, TraceTable
from tracelens.trace import cuda_api
from tracelens.trace.columns import Column, rows_among
from tracelens.trace.load_notes import LoadNotes
from tracelens.trace.numbering import numbered
from tracelens.trace.tables import GPU, RUNTIME, TraceRows, among

Mask = npt.NDArray[np.bool_]

LOST = (say("damaged event"), say("incomplete event"), say("not an event"))
"""Reasons of `Trace.dropped` that mean that the file held a row there which cannot be read."""
OPERATORS = ("cpu_op",)
LEAVES_GPU_WORK = ("launch", "copy", "graph_launch")
"""Kinds of call that always leave a row of GPU work. A memset may leave none (of 0 bytes), and takes a µs or two."""
_NO_GPU_WORK = "LaunchHostFunc"
_CAPTURE_BEGINS, _CAPTURE_ENDS = "StreamBeginCapture", "StreamEndCapture"
MOST_UNLINKED = 0.02
"""Share of a step's launching operations that may lack their calls: so far the mix varies from step to step."""


def of_columns(
    columns: Mapping[str, Column], names: tuple[str, ...], categories: tuple[str, ...], ended: bool, notes: LoadNotes
) -> Completeness:
    """What is missing from a file; `ended`: whether its list of events was closed."""
    calls = np.flatnonzero(rows_among(columns["category"], categories, RUNTIME))
    words = np.array([_leaves_gpu_work(name) for name in names], dtype=np.bool_)
    captured = _captured(columns, names, calls)
    launches = calls[words[columns["name"][calls]] & (columns["correlation"][calls] > 0) & ~captured]
    ran = columns["correlation"][rows_among(columns["category"], categories, GPU)]
    unmatched = ~np.isin(columns["correlation"][launches], ran)
    copies = np.array([cuda_api.kind(name) == "copy" for name in names], dtype=np.bool_)[columns["name"][launches]]
    return Completeness(
        ended_early=not ended,
        lost_events=sum(count for reason, count in notes.dropped.items() if reason in LOST),
        launches=len(launches),
        unmatched_launches=int(np.count_nonzero(unmatched)),
        copies=int(np.count_nonzero(copies)),
        unmatched_copies=int(np.count_nonzero(unmatched & copies)),
    )


def coverage(
    rows: TraceRows, calls: TraceTable, ops: TraceTable, steps: TraceTable, source: StepSource
) -> tuple[Coverage, Mask]:
    """How much of the recording can be judged, and which steps are complete."""
    kept = steps["kept"]
    reason = rows.trace.completeness.reason
    if not reason:
        return Coverage(), np.ones(len(steps), dtype=np.bool_)
    complete = np.zeros(len(steps), dtype=np.bool_)
    if source != "none" and len(calls) and len(ops):
        complete = _complete_steps(rows, calls, ops, steps)
    judged = np.flatnonzero(complete & kept)
    span = None
    if len(judged):
        starts, ends = steps["start_ns"], steps["end_ns"]
        span = (int(starts[judged].min()), int(ends[judged].max()))
    return Coverage(reason, span, len(judged), len(steps) if source != "none" else 0), complete


def _leaves_gpu_work(name: str) -> bool:
    return cuda_api.kind(name) in LEAVES_GPU_WORK and _NO_GPU_WORK not in name


def _captured(columns: Mapping[str, Column], names: tuple[str, ...], calls: Column) -> Mask:
    """Which calls only add to a graph that is being captured: they run nothing."""
    begins, ends = (
        np.isin(columns["name"][calls], [code for code, name in enumerate(names) if word in name])
        for word in (_CAPTURE_BEGINS, _CAPTURE_ENDS)
    )
    captured: Mask = np.cumsum(begins.astype(np.int64) - ends.astype(np.int64)) > 0
    return captured


def _complete_steps(rows: TraceRows, calls: TraceTable, ops: TraceTable, steps: TraceTable) -> Mask:
    """A step is complete if all work is there that may run in it: what it launches, and what was queued before it."""
    start, end = steps["start_ns"], steps["end_ns"]
    called = calls["start_ns"]
    linked = ops["call"] >= 0
    lags = ops["end_ns"][linked] - called[ops["call"][linked]]
    queued = start - int(lags.max(initial=0))
    whole: Mask = np.equal(_sum_between(called, _unmatched(rows, calls), queued, end), 0)
    known = rows.trace.completeness
    if known.host_is_whole:
        return whole
    if known.lost_events > 1 and len(steps) == 1:
        return np.zeros(1, dtype=np.bool_)  # a launch may be gone with its work, and no other step shows it
    unlinked, expected = _unlinked_operations(rows, steps)
    called_all = (expected > 0) & (unlinked <= MOST_UNLINKED * expected)
    if known.ended_early:
        # The driver may write one thread after the other: each goes on until the file ends in the middle of one.
        called_all &= min(called[calls["thread"] == thread].max() for thread in np.unique(calls["thread"])) >= end
    elif not expected.any():  # without framework operations: steps that make as many calls as the others
        count = np.searchsorted(called, end) - np.searchsorted(called, start)
        called_all = count == np.bincount(count).argmax()
    gaps = np.concatenate(([0], np.cumsum(~called_all)))
    first = np.minimum(np.searchsorted(end, queued, side="right"), np.arange(len(start)))
    complete: Mask = whole & (gaps[first] == gaps[1:])
    return complete


def _unmatched(rows: TraceRows, calls: TraceTable) -> Column:
    """1 for each call whose GPU work is not (all) in the file."""
    columns, selected = rows.trace.columns, rows.in_categories(RUNTIME)
    leaving = [str(name) for name in calls["name"].words if _leaves_gpu_work(str(name))]
    launching = among(calls["name"], *leaving) & ~_captured(columns, rows.trace.names, selected)
    count, graphs = calls["ops"], among(calls["kind"], "graph_launch")
    needed = np.where(graphs, count[graphs].max(initial=1), 1)
    return (launching & (count < needed)).astype(np.float64)


def _unlinked_operations(rows: TraceRows, steps: TraceTable) -> tuple[Column, Column]:
    """Per step how many of the framework operations that should have launched work have no launch, and how many
    should. What an operation should do is what its name did, on its thread, in the step where it did so most."""
    operators, launches = rows.in_categories(OPERATORS), rows.in_categories(RUNTIME)
    columns = rows.trace.columns
    words = np.array([_leaves_gpu_work(name) for name in rows.trace.names], dtype=np.bool_)
    launches = launches[words[columns["name"][launches]] & (columns["external_id"][launches] > 0)]
    operators = operators[columns["external_id"][operators] > 0]
    begin = columns["start_ns"][operators]
    linked = np.isin(columns["external_id"][operators], columns["external_id"][launches])
    place = np.searchsorted(steps["start_ns"], begin, side="right")
    name, thread = (numbered(columns[key][operators])[1] for key in ("name", "tid"))
    on_thread = numbered(name * (thread.max(initial=0) + 1) + thread)[1]
    in_step = numbered(on_thread * (len(steps) + 1) + place)[1]
    share = (np.bincount(in_step, weights=linked) / np.bincount(in_step))[in_step]
    silent = np.bincount(thread, weights=linked)[thread] == 0
    should = np.where(silent, _largest(share, name), _largest(share, on_thread))
    start, end = steps["start_ns"], steps["end_ns"]
    return _sum_between(begin, should - linked, start, end), _sum_between(begin, should, start, end)


def _largest(values: Column, group: Column) -> Column:
    """For each row the largest value in its group; `group`: numbers from 0, values are not negative."""
    largest = np.zeros(int(group.max(initial=-1)) + 1)
    np.maximum.at(largest, group, values)
    return largest[group]


def _sum_between(at: Column, values: Column, low: Column, high: Column) -> npt.NDArray[Any]:
    """Sum of the values whose instants (in order) lie in each [low, high)."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    return total[np.searchsorted(at, high)] - total[np.searchsorted(at, low)]
