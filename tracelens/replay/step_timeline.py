"""One steady step as bars on lanes, before or after Edits: the data of a picture of the replay.

In: a ReplayTrace, Edits. Out: LaneSpans on the lane `host` and on one lane per GPU stream, ns since the step's start on
the host. Launches are not merged here, because the picture shows each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracelens.model import Edit
from tracelens.replay import edits as rewriting
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.simulate import LaneSpan, Simulator

COPY_LANE = "copy stream"


def step_spans(trace: ReplayTrace, edits: Sequence[Edit] = (), steps: int = 1) -> tuple[LaneSpan, ...]:
    """All bars that touch `steps` steady steps, cut to them. With intervals, the last of N closes the window."""
    program = rewriting.apply(trace, edits)
    order = range(program.recorded_steps)
    machine = Simulator(compile_program(program, trace.overhead.row_ns, merge=False), log=[])
    period = max(program.recorded_steps, program.depth + 2, *program.intervals)
    machine.run_steps(order, 2 * period - steps)
    start = machine.time
    machine.run_steps(order, steps)
    end = machine.time
    names = (*trace.streams, COPY_LANE)
    bars = []
    for bar in machine.log or ():
        if bar.end_ns > start and bar.start_ns < end and bar.end_ns > bar.start_ns:
            lane = bar.lane if bar.lane == "host" else names[int(bar.lane)]
            bars.append(LaneSpan(lane, bar.name, max(bar.start_ns, start) - start, min(bar.end_ns, end) - start))
    return tuple(sorted(bars, key=lambda bar: (bar.lane != "host", bar.lane, bar.start_ns)))
