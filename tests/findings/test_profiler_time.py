"""Idle time that recorded rows took: where the rows are, and nowhere else. Worked out in the head."""

from __future__ import annotations

import pytest

from tests.support.builders import Events
from tracelens.findings import breakdown, stalls
from tracelens.findings.owners import attribute
from tracelens.model import Breakdown, StepClock, StepTimes, Timeline, baseline
from tracelens.trace import recorded_rows, timeline

STEPS, STEP_US = 6, 2050
US = 1000


def rows_and_python() -> Timeline:
    """Per step: a launch, whose kernel runs from 10 to 20 µs; ten operations 2 µs apart, the last of which begins at
    48; then Python, of which nothing is recorded. So eleven rows begin in idle time, with room for 10, nine times 2,
    and 2002 µs."""
    events = Events()
    for number in range(STEPS):
        began = number * STEP_US
        events.step(number, began, STEP_US)
        events.kernel(events.call("cudaLaunchKernel", began, 5), "gemm", began + 10, 10)
        for position in range(10):
            events.add("cpu_op", "aten::view", began + 30 + 2 * position, 1)
    return timeline.build(events.trace())


def measured(unprofiled_us: int) -> tuple[StepTimes, Breakdown]:
    times, parts, _, _ = breakdown.measure(rows_and_python(), StepClock((unprofiled_us * US,), None))
    assert parts is not None
    return times, parts


def test_a_row_costs_what_makes_the_recorded_step_longer() -> None:
    """11 µs for eleven rows: 1 µs each, one of them before the kernel."""
    _, parts = measured(STEP_US - 11)
    assert parts.row_ns == pytest.approx(1000, abs=1)
    assert parts.profiler_ns["idle_host"] == pytest.approx(10 * US, abs=20)
    assert parts.profiler_ns["idle_launch"] == pytest.approx(1 * US, abs=2)
    assert sum(parts.profiler_ns.values()) == pytest.approx(11 * US, abs=20)


def test_a_row_takes_no_more_than_there_is_before_the_next_and_no_more_than_rows_can_cost() -> None:
    """7 µs at the most: 7 before the kernel, nine times the 2 that there are, 7 for the last, 32 of the 500."""
    _, parts = measured(STEP_US - 500)
    assert parts.row_ns == recorded_rows.MOST_ROW_NS
    assert sum(parts.profiler_ns.values()) == pytest.approx(32 * US, abs=20)


def test_a_step_that_is_no_longer_under_the_profiler_gives_its_rows_no_cost() -> None:
    _, parts = measured(STEP_US + 5)
    assert (parts.row_ns, dict(parts.profiler_ns)) == (0.0, {})


def test_python_between_rows_keeps_its_time_and_owners_still_add_up() -> None:
    """Of 2050 µs 11 are gone; the 2000 of Python lose the one row that begins before them."""
    times, parts = measured(STEP_US - 11)
    owners = attribute(rows_and_python(), parts, (), None).owners
    told = baseline(times, parts, parts.wall_ns)
    (line,) = (owner for owner in owners.owners if owner.kind == "host_line")
    assert line.owned_ns - told.owned(line) == pytest.approx(line.profiler_ns, abs=2) and line.profiler_ns <= US + 2
    assert told.owners(owners).wall_ns == pytest.approx(times.best_known_ns, abs=30)
    assert told.parts(parts).wall_ns == pytest.approx(times.best_known_ns, abs=30)


def test_a_wait_loses_the_rows_that_begin_while_it_idles() -> None:
    """The synchronize waits for 80 µs of the kernel and returns 103 µs after it, which it owns: its own row began under
    the kernel, that of the operation at 150 did not."""
    events = Events()
    for number in range(STEPS):
        began = number * 300
        events.step(number, began, 300)
        events.kernel(events.call("cudaLaunchKernel", began, 5), "gemm", began + 10, 90)
        waited = events.call("cudaDeviceSynchronize", began + 20, 183)
        events.sync_row(waited, "Context Sync", began + 20, 183)
        events.add("cpu_op", "aten::view", began + 150, 1)
    picture = timeline.build(events.trace())
    (wait,) = (stall for stall in stalls.group(picture, 4.0 * US) if stall.verdict != "window_edge")
    assert (wait.wait_ns, wait.idle_inside_ns, wait.profiler_inside_ns) == (80 * US, 0, 0)
    assert (wait.gpu_idle_ns, wait.profiler_ns) == (103 * US, 4 * US)
    assert all(stall.profiler_ns == 0 for stall in stalls.group(picture))
