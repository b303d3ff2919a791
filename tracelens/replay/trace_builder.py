"""Timeline → ReplayTrace: the host operations of the kept steps, anchored at the unprofiled step time.

In: a Timeline, the Stalls found in it, the run's StepClock, a Calibration. Out: a ReplayTrace, or an Abstention where a
replay of this recording would be a guess. The profiler's overhead per recorded row is fitted so that the replay of the
unchanged loop meets the unprofiled step time; where that time does not depend on the host it cannot be fitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tracelens.messages import say
from tracelens.model import Abstention, SlowRows, Stall, StepClock, Timeline
from tracelens.replay import bounds, edits, simulate
from tracelens.replay.calibration import Calibration
from tracelens.replay.call_timings import measure_calls
from tracelens.replay.event_links import resolve
from tracelens.replay.host_ops import HostOpBuilder
from tracelens.replay.host_sequence import StepSpan
from tracelens.replay.preconditions import abstain, too_few_records, too_little_known, unexplained
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import (
    HostOp,
    LoaderPace,
    OpBlock,
    ProfilerOverhead,
    RecordedStep,
    ReplayErrors,
    ReplayTrace,
    StallWaits,
    block_columns,
    editable_host_ops,
)
from tracelens.replay.steady_state import step_time, window_time
from tracelens.trace import slow_steps, waits
from tracelens.trace.loader_iterators import LoaderIterators
from tracelens.trace.recorded_rows import MOST_ROW_NS
from tracelens.trace.streams import distinct_streams
from tracelens.trace.tables import among
from tracelens.units import ms

MOST_ERROR = 0.03
"""A recorded step that the replay misses by more than 3 % supports no prediction (replay.md §2.7)."""
MOST_DRIFT = 0.1
"""Recorded and unprofiled steps that differ by more than 10 % after the correction were not the same loop. Identical
runs of host-bound loops differed by up to that on a shared host; what remains of the difference widens the range."""
ROW_BOUNDS_NS = (0.0, MOST_ROW_NS)
"""Cost per recorded row. On the busiest machine a sleep of 3 ms took as long under the profiler as without it. What
rows cannot explain was another pace …"""
PACE_BOUNDS = (0.5, 1.5)
"""… of the host: on a shared machine the same loop's calls take 10-40 % longer for seconds at a time."""
SAMPLING = 0.01
"""The unprofiled steps are another sample of a loop that varies: 1 % of the step either way says nothing."""
LOADER_BOUND_SHARE = 0.1
"""Waiting for a worker must be at least a tenth of the steps to make the loader the limit."""
SLOW_STEP_SHARE = 0.08
"""Unprofiled steps say nothing of their calls; periodic work of every tenth step must stay in, so fewer than that."""
_FIT_ROUNDS = 14
_PACE_ROUNDS = 9


def build(
    timeline: Timeline,
    stalls: tuple[Stall, ...] = (),
    clock: StepClock | None = None,
    calibration: Calibration | None = None,
    loader_known: bool = True,
    iterators: LoaderIterators | None = None,
) -> ReplayTrace | Abstention:
    """The ReplayTrace of a Timeline; an Abstention says what to record where no replay is possible. `loader_known`:
    whether time in a DataLoader would show. `iterators`: those that the loop makes of it."""
    refusal = too_little_known(timeline) or too_few_records(timeline)
    if refusal is not None:
        return refusal
    trace = _from_recorded_steps(timeline, stalls, calibration or Calibration())
    hidden_ns = 0 if loader_known else _usual(_longest_gaps(trace))
    if hidden_ns >= LOADER_BOUND_SHARE * trace.recorded_ns:
        return abstain(
            say(
                "the host makes no call for {hidden_ns} of a step: the trace does not show whether a DataLoader does",
                hidden_ns=ms(hidden_ns),
            ),
            say("record CPU activities and take batches from a torch DataLoader: tracelens profile"),
        )
    loader = _with_iterators(_loader(timeline, trace, clock), timeline, iterators)
    # The recorded spans inside the loader are the check's; a producer's period belongs to the unprofiled step.
    trace = replace(trace, loader=replace(loader, period_ns=None))
    compiled = compile_program(edits.apply(trace), 0.0)
    trace = replace(trace, loader=loader, steady_ns=round(step_time(compiled)))
    window = window_time(compiled, _queues_found(timeline))
    errors = ReplayErrors(window / trace.recorded_ns - 1, None)
    if abs(errors.recorded) > MOST_ERROR:
        return unexplained(errors.recorded, timeline, trace)
    unprofiled = _unprofiled(clock, timeline.slow)
    if unprofiled is None:
        costs = trace.calibration.row_overhead_ns
        return replace(trace, overhead=ProfilerOverhead(0.0, 0.0, float(costs), fitted=False), errors=errors)
    return _fit_to_unprofiled_step(trace, unprofiled, errors)


def _queues_found(timeline: Timeline) -> dict[int, list[int]]:
    """Returns how much earlier GPU work a step finds queued, in ns after its start, per stream of the ReplayTrace.

    The keys are positions among the kept steps: the first, and each that follows a step that was left out. Such a step
    waits for that work and so differs in length from a steady step.
    """
    ops, steps = timeline.tables.ops, timeline.tables.steps
    put, done = waits.launch_times(timeline.tables.calls, ops), ops["end_ns"]
    known, stream = distinct_streams(ops)
    kept = np.flatnonzero(steps["kept"])
    queues_by_step = {}
    for order in np.flatnonzero(np.diff(kept, prepend=-2) != 1):
        began = int(steps["start_ns"][kept[order]])
        queued = put < began
        queues = np.full(len(known), simulate.NEVER)
        np.maximum.at(queues, stream[queued], done[queued] - began)
        queues_by_step[int(order)] = queues.tolist()
    return queues_by_step


# ------------------------------------------------------------------------------------------------------ assembly


def _from_recorded_steps(timeline: Timeline, stalls: tuple[Stall, ...], calibration: Calibration) -> ReplayTrace:
    timings = measure_calls(timeline, calibration)
    links = resolve(timeline, timings)
    positions = np.flatnonzero(timeline.tables.steps["kept"])
    kept = timeline.tables.steps[positions]
    spans = map(StepSpan, positions.tolist(), kept["start_ns"].tolist(), kept["end_ns"].tolist())
    builder = HostOpBuilder(timeline, timings, links)
    steps = builder.steps(spans)
    durations = kept["end_ns"] - kept["start_ns"]
    inside = np.isin(timeline.tables.calls["step"], positions)
    return ReplayTrace(
        steps=steps,
        streams=timings.streams,
        stalls={
            stall.id: StallWaits(frozenset(stall.waits), stall.wait_ns)
            for stall in stalls
            # the profiler's own drain enters no sum; the allocator's calls are host work to the replay, no waits
            if stall.verdict != "window_edge" and stall.kind != "alloc"
        },
        calibration=timings.calibration,
        overhead=ProfilerOverhead(0.0, 0.0, 0.0, fitted=False),
        loader=LoaderPace(calibration.loader_workers),
        recorded_ns=round(float(durations.mean())),
        steady_ns=0,
        unprofiled_ns=None,
        errors=ReplayErrors(0.0, None),
        unresolved_waits=round(np.count_nonzero(inside[links.unresolved]) / len(steps)),
        notes=_notes(timeline, steps),
        python=timeline.trace.program != "cpp",
        row_starts=builder.order.row_starts,
    )


def _notes(timeline: Timeline, steps: tuple[RecordedStep, ...]) -> tuple[str, ...]:
    notes = []
    shapes = _shapes(steps)
    if len(shapes) > 1:
        told = {"count": shapes.most_common(1)[0][1], "all": len(steps)}
        notes.append(say("{count} of {all} steps make the same calls; all are repeated in turn", **told))
    if among(timeline.tables.ops["kind"], "collective").any():
        notes.append(say("collectives keep their recorded duration: what other ranks do is not in this trace"))
    if any(_any_detached(element) for step in steps for element in step):
        notes.append(say("GPU work of other threads keeps its place in the order and costs the training loop no time"))
    return tuple(notes)


def _shapes(steps: tuple[RecordedStep, ...]) -> Counter[bytes]:
    """How many steps make the same calls in the same order, host work aside."""
    numbers: dict[tuple[str, str], int] = {}
    for code, word in enumerate(block_columns(steps).words):
        numbers.setdefault(("launch", word), code)
    shapes = Counter[bytes]()
    for step in steps:
        calls = []
        for element in step:
            if isinstance(element, OpBlock):
                calls.append(element.columns.name[element.span][element.columns.launch[element.span]])
            elif element.kind != "work":
                number = numbers.setdefault((element.kind, element.name), -len(numbers))
                calls.append(np.array([number], dtype=np.int64))
        shapes[np.concatenate(calls).tobytes() if calls else b""] += 1
    return shapes


def _any_detached(element: HostOp | OpBlock) -> bool:
    return element.detached if isinstance(element, HostOp) else bool(element.columns.detached[element.span].any())


def _loader(timeline: Timeline, trace: ReplayTrace, clock: StepClock | None) -> LoaderPace:
    """Workers from the run, else from the loader's name; a producer's period where steps wait for batches."""
    workers, names = trace.loader.workers, " ".join(timeline.tables.loader["name"].used())
    if workers is None and "SingleProcess" in names and "MultiProcess" not in names:
        workers = 0
    if workers == 0:
        return LoaderPace(0)
    spans = [sum(op.issue_ns for op in editable_host_ops(step) if op.kind == "loader") for step in trace.steps]
    if _usual(spans) - trace.calibration.loader_work_limit_ns < LOADER_BOUND_SHARE * trace.recorded_ns:
        return LoaderPace(workers)
    return LoaderPace(workers, _unprofiled(clock, timeline.slow) or trace.recorded_ns)


def _with_iterators(loader: LoaderPace, timeline: Timeline, iterators: LoaderIterators | None) -> LoaderPace:
    if iterators is None:
        return loader
    kept = np.flatnonzero(timeline.tables.steps["kept"])
    inside = np.isin(timeline.tables.loader["step"], kept)
    order_ns = int(iterators.order_ns[inside].sum()) // max(1, len(kept))
    return replace(loader, iterators=iterators.per_step, order_ns=order_ns)


def _longest_gaps(trace: ReplayTrace) -> list[int]:
    """Of each step, the longest time between two calls: where a loader may be that left no mark."""
    recorded = block_columns(trace.steps)
    return [
        max(
            int(recorded.gap_ns[element.span].max()) if isinstance(element, OpBlock) else element.gap_ns
            for element in step
        )
        for step in trace.steps
    ]


def _usual(spans: Sequence[int]) -> int:
    """The mean, since workers deliver in bursts and half the steps may find a batch; without the longest span, since
    one slow step makes no limit."""
    return (sum(spans) - max(spans)) // max(1, len(spans) - 1)


def _unprofiled(clock: StepClock | None, apart: SlowRows | None = None) -> int | None:
    """The typical step of W0: its mean without the few steps that the machine made slow, and without those that are
    told of by themselves.

    CUDA events time W0 as a whole, so they are taken where there was none.
    """
    if clock is None:
        return None
    if not clock.unprofiled_ns:
        return clock.unprofiled_mean_ns
    if apart is not None:
        pattern = apart.pattern
        slow_ns = sum(pattern.excess_ns) + pattern.seen * pattern.ordinary_ns
        return round((pattern.total_ns - slow_ns) / (pattern.steps - pattern.seen))
    steps = np.asarray(clock.unprofiled_ns, dtype=np.float64)
    slow = steps > slow_steps.FACTOR * np.median(steps)
    if not slow.any() or slow.mean() > SLOW_STEP_SHARE:
        return clock.unprofiled_mean_ns or round(float(steps.mean()))
    return round(float(steps[~slow].mean()))


# ------------------------------------------------------------------------------------------------------ anchoring


def _replayed(trace: ReplayTrace) -> Callable[[float], float]:
    program = replace(edits.apply(trace), least_step_ns=0)  # it comes from the time that is to be explained
    return lambda row_ns: step_time(compile_program(program, row_ns))


def _fit_to_unprofiled_step(trace: ReplayTrace, unprofiled_ns: int, errors: ReplayErrors) -> ReplayTrace | Abstention:
    """Choose the cost per row with which the replay meets the unprofiled step; refuse when it stays far off.

    All costs that meet it within sampling are equally good; of these the one nearest to the usual cost is taken. Where
    none does, the host worked at another pace in the recorded steps: then all its times are scaled.
    """
    trace = _with_host_pace(trace, unprofiled_ns)
    replayed, usual = _replayed(trace), float(trace.calibration.row_overhead_ns)
    low, high = (_fit(replayed, unprofiled_ns * (1 + share)) for share in (SAMPLING, -SAMPLING))
    row_ns = min(max(usual, low), high)
    fitted = not low < usual < high
    overhead = ProfilerOverhead(row_ns, max(low, row_ns - usual), min(max(high, usual), row_ns + usual), fitted)
    anchor = replayed(overhead.row_ns) / unprofiled_ns - 1
    if abs(anchor) > MOST_DRIFT:
        return _another_loop(trace, replayed(overhead.row_ns), unprofiled_ns)
    unknown = () if fitted else (say("the step time does not tell what the profiler costs: the usual is used"),)
    errors = replace(errors, anchor=anchor)
    return replace(trace, overhead=overhead, unprofiled_ns=unprofiled_ns, errors=errors, notes=trace.notes + unknown)


def _another_loop(trace: ReplayTrace, recorded_ns: float, unprofiled_ns: int) -> Abstention:
    """Says which step times do not fit together, and what can be told all the same: the GPU's own work is what it is,
    whatever the profiler costs the host."""
    program = replace(edits.apply(trace), least_step_ns=0)
    work_ns = bounds.busiest_stream_ns(program)
    if work_ns <= unprofiled_ns:
        gpu = say(
            "the GPU's work of {work_ns} would fill {value:.0f} % of an unprofiled step",
            work_ns=ms(work_ns),
            value=100 * work_ns / unprofiled_ns,
        )
    else:
        gpu = say("the GPU's work alone takes {work_ns}", work_ns=ms(work_ns))
    return abstain(
        say(
            "a recorded step takes {recorded_ns} without what the profiler costs, an unprofiled one "
            "{unprofiled_ns}, so no gain can be told; {gpu}",
            recorded_ns=ms(recorded_ns),
            unprofiled_ns=ms(unprofiled_ns),
            gpu=gpu,
        ),
        say("record again on a quieter machine, with more steps: --steps 20"),
    )


def _with_host_pace(trace: ReplayTrace, unprofiled_ns: int) -> ReplayTrace:
    """The trace with the host times of the unprofiled steps, as far as one factor for all of them can give that.

    Rows come first: the factor is of what they leave when each cost as much as one can, or nothing. With the usual cost
    in its place, a step whose rows cost a little more than they can would be scaled for all that they cost, and so
    would time in which nothing was recorded.
    """
    if _replayed(trace)(ROW_BOUNDS_NS[1]) <= unprofiled_ns * (1 + SAMPLING):
        if _replayed(trace)(ROW_BOUNDS_NS[0]) >= unprofiled_ns * (1 - SAMPLING):
            return trace
        row_ns, wanted = ROW_BOUNDS_NS[0], unprofiled_ns * (1 - SAMPLING)
    else:
        row_ns, wanted = ROW_BOUNDS_NS[1], unprofiled_ns * 1.0
    low, high = PACE_BOUNDS
    for _ in range(_PACE_ROUNDS):
        middle = (low + high) / 2
        if _replayed(_scaled(trace, middle))(row_ns) > wanted:
            high = middle
        else:
            low = middle
    pace = (low + high) / 2
    slower = say("the host worked {share:.0%} slower in the recorded steps", share=1 / pace - 1)
    note = slower if pace < 1 else say("the host worked {share:.0%} faster in the recorded steps", share=1 - 1 / pace)
    return replace(_scaled(trace, pace), notes=(*trace.notes, note))


def _scaled(trace: ReplayTrace, pace: float) -> ReplayTrace:
    def scaled(op: HostOp) -> HostOp:
        return op._replace(gap_ns=round(op.gap_ns * pace), issue_ns=round(op.issue_ns * pace))

    recorded = block_columns(trace.steps)
    gap, issue = (np.rint(times * pace).astype(np.int64) for times in (recorded.gap_ns, recorded.issue_ns))
    columns = replace(recorded, gap_ns=gap, issue_ns=issue)

    def scaled_element(element: HostOp | OpBlock) -> HostOp | OpBlock:
        return OpBlock(columns, element.index) if isinstance(element, OpBlock) else scaled(element)

    steps = tuple(tuple(map(scaled_element, step)) for step in trace.steps)
    return replace(trace, steps=steps, pace=pace)


def _fit(replayed: Callable[[float], float], wanted_ns: float) -> float:
    """Bisection: the replay falls as the cost taken out of the host rises."""
    low, high = ROW_BOUNDS_NS
    for _ in range(_FIT_ROUNDS):
        middle = (low + high) / 2
        if replayed(middle) > wanted_ns:
            low = middle
        else:
            high = middle
    return (low + high) / 2
