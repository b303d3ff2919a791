"""Build the Timeline: from one rank's columns to the tables that every finding and the replay read.

In: a `Trace`, and what the recording left beside it. Out: a `Timeline`. This module only holds the order in which the
parts are made; each part is a module: threads, tables (calls and GPU work), steps, waits, idle_gaps, attribution.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens.messages import say
from tracelens.model import RankRecording, SlowRows, StepSource, Tables, TextColumn, Timeline, Trace, TraceTable
from tracelens.trace import (
    attribution,
    completeness,
    cuda_api,
    event_records,
    freed_memory,
    idle_gaps,
    intervals,
    slow_steps,
    steps,
    tables,
    threads,
    waits,
)
from tracelens.trace.tables import TraceRows
from tracelens.trace.threads import LOADER, MARKS, Threads


def build(trace: Trace, recording: RankRecording | None = None) -> Timeline:
    """The Timeline of `trace`; `recording` adds TraceLens's step marks, attributed steps and source lines."""
    rows = TraceRows(trace)
    calls, ops = tables.build(rows)
    calls = event_records.with_records(calls, trace, recording)
    loop_threads = threads.find(rows, calls, ops)
    step, source = steps.find(rows, calls, ops, loop_threads, recording)
    calls, ops = _with_steps(calls, ops, step, source)
    loader = _loader(rows, loop_threads, step)
    slow = slow_steps.find(step, calls, loader)
    step = step.with_columns(kept=step["kept"] & ~slow)
    apart = slow_steps.told_apart(step, ops, loader, recording.clock) if recording is not None else None
    step = _without(step, apart)
    overstated = slow_steps.overstated(step, loader, recording.clock if recording is not None else None)
    step = step.with_columns(kept=step["kept"] & ~overstated)
    notes = _notes(ops, step, source, (int(slow.sum()), int(overstated.sum())), apart)
    covered, complete = completeness.coverage(rows, calls, ops, step, source)
    step = step.with_columns(kept=step["kept"] & complete)
    wait = waits.find(rows, calls, ops, source)
    gaps = idle_gaps.find(idle_gaps.IdleInputs(calls, ops, wait, loader, step, _overhead(rows, wait), loop_threads))
    wait = wait.with_columns(gpu_idle_ns=idle_gaps.idle_per_wait(gaps, len(wait)))
    wait = waits.without_explicit_synchronizes(attribution.locate(rows, wait, recording))
    freed_memory.give_back()
    return Timeline(
        trace=trace,
        tables=Tables(step, calls, ops, wait, gaps, loader),
        step_source=source,
        main_thread=loop_threads.main,
        autograd_threads=loop_threads.autograd,
        notes=(*_several(rows, ops), *notes),
        unknown_waits=tuple(sorted(filter(cuda_api.unknown_wait, calls["name"].words))),
        coverage=covered,
        slow=apart,
    )


def _without(step: TraceTable, apart: SlowRows | None) -> TraceTable:
    """The steps, none of which is kept that is told of by itself."""
    if apart is None or not apart.rows:
        return step
    return step.with_columns(kept=step["kept"] & ~np.isin(np.arange(len(step)), apart.rows))


def _with_steps(
    calls: TraceTable, ops: TraceTable, step: TraceTable, source: StepSource
) -> tuple[TraceTable, TraceTable]:
    """A call belongs to the step in which it begins, GPU work to the step of its launch."""
    if source == "none":
        first = np.zeros(max(len(calls), len(ops)), dtype=np.int64)
        return calls.with_columns(step=first[: len(calls)]), ops.with_columns(step=first[: len(ops)])
    called = tables.step_of(calls["start_ns"], step)
    call = ops["call"]
    own = tables.step_of(ops["start_ns"], step)
    own = np.where(call >= 0, called[call], own) if len(calls) else own
    return calls.with_columns(step=called), ops.with_columns(step=own)


def _loader(rows: TraceRows, loop_threads: Threads, step: TraceTable) -> TraceTable:
    spans = rows.named(rows.in_categories(MARKS), lambda name: name.startswith(LOADER))
    spans = spans[rows.column("tid")[spans] == loop_threads.main]
    codes, names = np.unique(np.array(rows.names(spans), dtype=object), return_inverse=True)[::-1]
    return TraceTable(
        {
            "thread": rows.column("tid")[spans],
            "start_ns": rows.column("start_ns")[spans],
            "end_ns": rows.column("end_ns")[spans],
            "step": tables.step_of(rows.column("start_ns")[spans], step),
            "name": TextColumn.coded(codes, names),
        }
    )


def _overhead(rows: TraceRows, wait: TraceTable) -> intervals.IntervalSet:
    """When the profiler itself blocked the host: its own rows, and its synchronize at the end of the window."""
    spans, edge = rows.in_categories(("overhead",)), wait[wait["window_edge"]]
    return intervals.union(*(np.concatenate((rows.column(key)[spans], edge[key])) for key in ("start_ns", "end_ns")))


def _several(rows: TraceRows, ops: TraceTable) -> list[str]:
    """What to know about a file that is not one process on one GPU."""
    processes, devices = tables.processes(rows), len(np.unique(ops["device"]))
    notes: list[str] = []
    if processes > 1:
        notes.append(
            say(
                "the file holds the calls of {processes} processes: work of one may be taken for another's",
                processes=processes,
            )
        )
    if devices > 1:
        notes.append(
            say("{devices} GPUs worked; shares and breakdown are of the one that worked most", devices=devices)
        )
    return notes


def _slow_notes(slow: int, overstated: int, steps: int) -> Iterator[str]:
    told = {"all": steps, "factor": slow_steps.FACTOR}
    if slow:
        yield say(
            "{count} of {all} steps took more than {factor:g} x the time of the others for the same "
            "calls, a hiccup of the machine, and were left out",
            count=slow,
            **told,
        )
    if overstated:
        yield say(
            "{count} of {all} steps took more than {factor:g} x the time of the others, as next to none before the "
            "recording did, and were left out: they come less often than the recording has them",
            count=overstated,
            **told,
        )


def _notes(
    ops: TraceTable, step: TraceTable, source: StepSource, left_out: tuple[int, int], apart: SlowRows | None
) -> tuple[str, ...]:
    """`left_out`: steps that the machine made slow, and those that are slow less often than the window has it."""
    slow, overstated = left_out
    notes: list[str] = []
    rare = len(apart.rows) if apart is not None else 0
    unlinked = int((ops["call"] < 0).sum())
    if unlinked:
        share = 100 * unlinked / len(ops)
        notes.append(
            say(
                "{count} of {all} GPU operations ({share:.0f} %) have no launch call in the trace",
                count=unlinked,
                all=len(ops),
                share=share,
            )
        )
    cut_off = int((~step["kept"] & ~step["attributed"]).sum()) - slow - overstated - rare
    if cut_off:
        notes.append(
            say(
                "{count} of {all} steps are cut off at the edge of the window and were left out",
                count=cut_off,
                all=len(step),
            )
        )
    if rare:
        notes.append(
            say(
                "{count} of {all} steps hold what comes only now and then, and are told of apart",
                count=rare,
                all=len(step),
            )
        )
    notes += _slow_notes(slow, overstated, len(step))
    if source == "cycle":
        notes.append(say("steps were found by repetition in the launch sequence; the trace has no step marks"))
    if source == "none":
        notes.append(say("no steps were found; the whole recording is taken as one"))
    return tuple(notes)
