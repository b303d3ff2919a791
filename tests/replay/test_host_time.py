"""What a step is shorter by without some of its host's time, where recording each row cost the host 5 µs.

The profiler lengthens a stretch by the rows in it, whatever else it takes. All times in µs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.support.builders import Machine
from tests.support.replaying import build, time_us, timeline_and_stalls
from tracelens.model import StepClock
from tracelens.replay.host_time import Calls, without_spans
from tracelens.replay.replay_trace import ProfilerOverhead
from tracelens.trace import intervals
from tracelens.trace.intervals import IntervalSet

ROW_US = 5
COST = ProfilerOverhead(1_000.0 * ROW_US, 1_000.0 * ROW_US, 1_000.0 * ROW_US, fitted=True)
PYTHON, MALLOC, INSIDE = 1_000, 200, 40
Spans = list[tuple[float, float]]


def operator(machine: Machine) -> None:
    """Three rows that begin at once, 40 of host time, and a launch of 5: a fourth row. 25 without the profiler."""
    with ExitStack() as stack:
        for name in ("linear", "addmm", "gemm"):
            stack.enter_context(machine.operation(name))
        machine.host(INSIDE)
        machine.launch("gemm", 1)


def marked(machine: Machine, spans: Spans, us: float) -> None:
    """Host time that is to be taken out."""
    spans.append((machine.now, machine.now + us))
    machine.host(us)


def without(body: Callable[[Machine, Spans], None], calls: Callable[[IntervalSet], Calls | None]) -> float:
    """By how much a step is shorter without what `body` marks."""
    spans: Spans = []

    def step(machine: Machine) -> None:
        machine.host(1)  # the row of the step itself begins with it, and is nobody's
        body(machine, spans)

    picture, _ = timeline_and_stalls(step)
    made = replace(build(step), overhead=COST)
    taken = _nanoseconds(spans)
    return time_us(made) - time_us(without_spans(made, picture, taken, calls(taken)))


def _nanoseconds(spans: Spans) -> IntervalSet:
    return intervals.union(*([round(1_000 * edge) for edge in edges] for edges in zip(*spans, strict=True)))


def test_python_before_an_operator_is_worth_what_it_takes() -> None:
    """1,025 without the profiler, 25 without the line: the rows are the operator's, however long the line takes."""

    def body(machine: Machine, spans: Spans) -> None:
        marked(machine, spans, PYTHON)
        operator(machine)

    assert without(body, lambda _: None) == pytest.approx(PYTHON, abs=1)


def test_rows_that_a_line_made_go_with_it() -> None:
    """Ten rows in 100 of a line that starts nothing on the GPU: 50 of them were the profiler's."""

    def body(machine: Machine, spans: Spans) -> None:
        for _ in range(10):
            with machine.operation("empty"):
                marked(machine, spans, 10)
        machine.host(PYTHON)
        operator(machine)

    assert without(body, lambda _: None) == pytest.approx(50, abs=1)


def test_a_call_of_the_driver_is_lengthened_by_its_own_row_alone() -> None:
    """An operator asks for memory: three rows and 40 before, the call takes 200 and is one row."""

    def body(machine: Machine, spans: Spans) -> None:
        with ExitStack() as stack:
            for name in ("linear", "addmm", "empty"):
                stack.enter_context(machine.operation(name))
            machine.host(INSIDE)
            machine.events.call("cudaMalloc", machine.now, MALLOC)
            marked(machine, spans, MALLOC)
            machine.host(PYTHON)
            machine.launch("gemm", 1)

    assert without(body, lambda _: None) == pytest.approx(MALLOC - ROW_US, abs=1)


@pytest.mark.parametrize("stays", [True, False])
def test_a_launch_that_goes_takes_its_row_along(stays: bool) -> None:
    """The launch of 5 goes; of the 40 before it, 25 are left without three rows."""

    def body(machine: Machine, spans: Spans) -> None:
        with ExitStack() as stack:
            for name in ("linear", "addmm", "gemm"):
                stack.enter_context(machine.operation(name))
            machine.host(INSIDE)
            spans.append((machine.now, machine.now + 5))
            machine.launch("gemm", 1)
        machine.host(PYTHON)
        operator(machine)

    assert without(body, lambda taken: Calls(taken, gpu_work_stays=stays)) == pytest.approx(0, abs=1)


def own_time(python: float, rows: int, profiled: float, row_us: float) -> float:
    """What Python of a step is worth that takes `python` and then, in launches, `profiled` for each of some rows, of
    which the profiler has `row_us`."""
    spans: Spans = []

    def step(machine: Machine) -> None:
        machine.host(1)
        marked(machine, spans, python)
        for _ in range(rows):
            machine.host(profiled - 5)
            machine.launch("gemm", 1)

    picture, _ = timeline_and_stalls(step)
    unprofiled = round(1_000 * (python + rows * (profiled - row_us)))
    made = build(step, clock=StepClock((unprofiled,) * 30, unprofiled))
    return time_us(made) - time_us(without_spans(made, picture, _nanoseconds(spans)))


def test_python_beside_operators_that_the_profiler_made_three_times_as_long_is_as_long_as_before() -> None:
    """1,500 of Python and 500 launches of 3, recorded at twice the length: 1,500 and 500 of 9."""
    assert own_time(1_500, 500, 9, 6) == pytest.approx(1_500, abs=5)


def test_what_no_cost_of_a_row_explains_is_the_pace_of_all_of_the_host() -> None:
    """5,000 of Python and 250 launches of 20, recorded as 30 each. A row may cost 7: 10,750 are left, and 10,000 were
    taken. Python is no more shortened than launches are."""
    assert own_time(5_000, 250, 30, 10) == pytest.approx(5_000 * 10_000 / 10_750, rel=0.02)


@pytest.mark.parametrize("row_us", [6.5, 7, 7.2, 7.5])
def test_a_little_more_time_in_launches_is_a_little_less_of_python(row_us: float) -> None:
    assert own_time(5_000, 250, 30, row_us) == pytest.approx(5_000, rel=0.03)


@pytest.mark.parametrize("first", [True, False])
def test_a_line_of_a_host_that_was_recorded_slower_is_worth_its_part(first: bool) -> None:
    """400 of 1,000 before a call, recorded at twice the time: 200, wherever the line stands. Rows had their 20."""
    spans: Spans = []

    def step(machine: Machine) -> None:
        machine.host(1)
        if first:
            marked(machine, spans, 400)
        machine.host(600)
        if not first:
            marked(machine, spans, 400)
        machine.launch("gemm", 1)
        machine.host(1_000)

    picture, _ = timeline_and_stalls(step)
    made = build(step, clock=StepClock((1_010_000,) * 30, 1_010_000))
    assert made.pace == pytest.approx(0.5, abs=0.02)
    assert time_us(made) - time_us(without_spans(made, picture, _nanoseconds(spans))) == pytest.approx(200, abs=8)
