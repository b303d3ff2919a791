"""One steady step as bars on lanes, before or after Edits: the data of a picture of the replay.

In: a ReplayTrace, Edits. Out: a DrawnStep with the lane `host` and one lane per GPU stream, ns since the start of the
window. Launches are not merged here, because the picture shows each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tracelens.model import DrawnSpan, DrawnStep, Edit
from tracelens.replay import edits
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.simulate import LaneSpan, Simulator

COPY_LANE = "copy stream"
"""The lane of the stream that a prefetch Edit adds."""


def draw_step(trace: ReplayTrace, edit_set: tuple[Edit, ...], scheme: str | None) -> DrawnStep:
    """A window as long as the mean step, from the start of a typical step on the host's clock."""
    program = edits.apply(trace, edit_set)
    order = range(program.recorded_steps)
    simulator = Simulator(compile_program(program, trace.overhead.row_ns, merge=False), log=[])
    count = max(program.recorded_steps, program.depth + 2, *program.intervals)
    simulator.run_steps(order, count)
    marks = [simulator.time]
    for _ in range(count):
        simulator.run_steps(order, 1)
        marks.append(simulator.time)
    mean = round((marks[-1] - marks[0]) / count)
    simulator.run_steps(order, 1)  # what follows the last mark may be in the window
    lengths = [end - begin for begin, end in pairwise(marks)]
    start = marks[min(range(count), key=lambda step: abs(lengths[step] - mean))]
    return DrawnStep(scheme, mean, tuple(_cut(simulator.log or (), start, start + mean, trace.streams)))


def _cut(spans: Iterable[LaneSpan], start: int, end: int, streams: Sequence[str]) -> Iterator[DrawnSpan]:
    names = (*streams, COPY_LANE)
    for span in spans:
        if span.end_ns > start and span.start_ns < end and span.end_ns > span.start_ns:
            lane = span.lane if span.lane == "host" else names[int(span.lane)]
            yield DrawnSpan(lane, span.name, max(span.start_ns, start) - start, min(span.end_ns, end) - start)
