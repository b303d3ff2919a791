"""What a step would be shorter by without a line of the project, or without waits, or with many tensors in one call.

In: a ReplayTrace, its Timeline, spans on the host's clock. Out: `Gain`, with a range. A line can go in three ways, and
which of them a remedy amounts to is not known before it is written; so they are the low end, the middle and the high
end of one range:

    its waits are gone      its operations stay where they are
    it costs the host nothing    its GPU work stays
    it is gone              with all that it starts
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tracelens.model import Abstention, Edit, Estimate, Timeline
from tracelens.replay import baseline, edit_sites, edits, estimate, loader_workers
from tracelens.replay.host_time import Calls, without_spans
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace, editable_host_ops
from tracelens.replay.steady_state import step_time
from tracelens.trace.intervals import IntervalSet

DEAREST_ROW_NS = 4_000.0
"""What recording a row may have cost where the unprofiled step allows it. What a row costs and how much longer a line
takes without the profiler are two unknowns of one measurement, the unprofiled step."""
LOOP_ROW_NS = 1_500.0
"""What recording a row costs at most in a loop that does the same again and again: 0.8 to 2.1 µs for thirteen kinds of
calls on an H200, 5.0 of a forward and backward pass (`tests/owners/row_cost.py`)."""
MOST_STRETCHED = 2
"""`json.dumps` took 0.7 ms beside the profiler, whose memory the allocator reuses, and 1.3 ms without it."""


@dataclass(frozen=True, slots=True)
class Gain:
    """ns per step on the scale of `ReplayTrace.base_ns`: the middle, and an 80 % range."""

    ns: int
    low_ns: int
    high_ns: int


def without_work(trace: ReplayTrace, timeline: Timeline, work: IntervalSet, work_ns: int) -> Gain | None:
    """Without host time between calls, `work_ns` per step; launches and waits stay."""
    shortened = without_spans(trace, timeline, work)
    gain = gain_of(estimate.predict_shortened(trace, shortened))
    if gain is None:
        return None
    stretched = round((1 - _step(shortened, DEAREST_ROW_NS) / trace.own_ns) * trace.base_ns)
    high = max(gain.high_ns, min(MOST_STRETCHED * work_ns, stretched + gain.high_ns - gain.ns))
    return Gain(gain.ns, gain.low_ns, high)


def without_waits(trace: ReplayTrace, stalls: Collection[str]) -> Gain | None:
    """Without the waits of some Stalls together; their calls, copies and launches stay."""
    changed = edits.without_waits(trace, edit_sites.stall_waits(trace, stalls))
    return gain_of(estimate.predict_shortened(trace, changed))


def from_pinned_memory(trace: ReplayTrace, stalls: Collection[str]) -> Gain | None:
    """With the batches that these Stalls copy from pageable memory pinned before; None where none of them is one. Who
    pins a batch copies it, too, so that this may be nothing where the wait alone takes half of a step."""
    waits = edit_sites.stall_waits(trace, stalls)
    copied = (op for step in trace.steps for op in editable_host_ops(step) if op.kind == "staged")
    if not any(op.wait in waits for op in copied):
        return None
    return gain_of(estimate.predict(trace, (Edit("async-copy", stalls=tuple(sorted(stalls))),)))


def without_line(trace: ReplayTrace, timeline: Timeline, line: IntervalSet, waits_ns: int) -> Gain | None:
    """Without a line that waits or launches; `waits_ns` is the gain without its waits alone."""
    idle = without_spans(trace, timeline, line, Calls(line, gpu_work_stays=True))
    gain = gain_of(estimate.predict_shortened(trace, idle))
    if gain is None:
        return None
    gone = _point(trace, without_spans(trace, timeline, line, Calls(line)))
    return Gain(gain.ns, min(gain.low_ns, waits_ns), max(gain.high_ns, gone))


def without_loop(trace: ReplayTrace, timeline: Timeline, loop: IntervalSet, row_share: float) -> Gain | None:
    """Without a loop within a step. `row_share`: of the recorded rows, those that are its own. They cost less to record
    than others do, which then cost more; where that shortens the step the more, the gain is so much larger, and its low
    end, which is never below zero, stays."""
    gain = without_line(trace, timeline, loop, 0)
    if gain is None or row_share >= 1:
        return gain
    mean = trace.overhead.row_ns
    others = mean + row_share / (1 - row_share) * max(0.0, mean - LOOP_ROW_NS)
    shortened = without_spans(trace, timeline, loop, Calls(loop, gpu_work_stays=True))
    more = round(max(0.0, _step(shortened, mean) - _step(shortened, others)) / trace.own_ns * trace.base_ns)
    return Gain(gain.ns + more, max(0, gain.low_ns), gain.high_ns + more)


def in_one_call(trace: ReplayTrace, timeline: Timeline, operations: IntervalSet, span: IntervalSet) -> Gain | None:
    """With the launching `operations` of a span made for all tensors at once: at least they cost the host nothing, at
    most the span does. What Python does per tensor is in between."""
    least = gain_of(
        estimate.predict_shortened(
            trace, without_spans(trace, timeline, operations, Calls(operations, gpu_work_stays=True))
        )
    )
    if least is None:
        return None
    most = _point(trace, without_spans(trace, timeline, span, Calls(span)))
    return Gain((least.ns + most) // 2, least.low_ns, most)


def with_ready_batches(trace: ReplayTrace) -> Gain | None:
    """With the batches that the training thread makes itself made before; from zero, because a worker that hands them
    over brings nothing here. None where workers make them, whose time this is not."""
    if trace.loader.workers != 0:
        return None
    gain = gain_of(estimate.predict_shortened(trace, loader_workers.with_ready_batches(trace)))
    return None if gain is None else Gain(gain.ns, 0, gain.high_ns)


def gain_of(found: Estimate | Abstention | None) -> Gain | None:
    """An Estimate as what is gained."""
    if found is None or isinstance(found, Abstention):
        return None
    return Gain(max(0, found.base_ns - found.step_ns), found.base_ns - found.high_ns, found.base_ns - found.low_ns)


def _point(trace: ReplayTrace, changed: ReplayTrace) -> int:
    base = baseline.step_ns(trace)
    return round((base - _step(changed, trace.overhead.row_ns)) / base * trace.base_ns)


def _step(trace: ReplayTrace, row_ns: float) -> float:
    return step_time(compile_program(edits.apply(trace), row_ns))
