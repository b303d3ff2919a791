"""Known answers for where the recorded window begins: the GPU may still be at work, and a step may have been left out.

Loops as in test_known_answers; all times in µs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.builders import Machine
from tests.support.replaying import SYNC, build, stalls_by_kind, synchronized, time_us
from tracelens.model import Edit
from tracelens.replay import trace_builder
from tracelens.replay.replay_trace import HostOp, ReplayTrace, editable_host_ops
from tracelens.trace import timeline


def begun_with(before_us: float, body: Callable[[Machine, int], None], steps: int = 8) -> ReplayTrace:
    """Recorded while `before_us` of work was running whose launch call is from before the recording."""
    machine = Machine()
    machine.launch("before", before_us)
    machine.events.rows[:] = [row for row in machine.events.rows if row["cat"] != "cuda_runtime"]
    for number in range(steps):
        with machine.step(number):
            body(machine, number)
    picture = timeline.build(machine.trace())
    made = trace_builder.build(picture, stalls_by_kind(picture))
    assert isinstance(made, ReplayTrace), made
    return made


def test_the_first_step_waits_for_what_was_queued_before_it() -> None:
    """100 from before: the first step is longer by the 96 of it that were left, the steady step is not."""
    made = begun_with(100, lambda machine, _: synchronized(machine))
    assert made.recorded_ns == 250_000 + 96_000 / 8
    assert abs(made.errors.recorded) < 1e-4
    assert time_us(made) == pytest.approx(250, abs=0.1)
    assert made.steady_ns == pytest.approx(250_000, abs=100)


def test_a_copy_behind_work_from_before_the_recording_is_no_longer_for_it() -> None:
    """The call of the first step's copy lasts until that work is done; its own part is as long as in other steps."""

    def body(machine: Machine, _: int) -> None:
        machine.copy("h2d", "pageable", 700, nbytes=10_000_000)
        machine.launch("gemm", 500)
        machine.synchronize()

    made = begun_with(300, body)
    issued = [op.issue_ns for step in made.steps for op in editable_host_ops(step) if op.kind == "staged"]
    assert len(issued) == 8
    assert max(issued) - min(issued) <= 7_000  # the latency of a launch, which a queued copy does not have
    assert abs(made.errors.recorded) < 2e-3
    assert time_us(made, Edit("interval-sync", (SYNC,), interval=1000)) == pytest.approx(1_212, abs=5)


def test_after_a_step_that_was_left_out_the_gpu_is_as_the_recording_found_it() -> None:
    """Each step waits for the kernel of the one before. The fifth had a hiccup of 2,000, which is left out; the sixth
    found the GPU idle and waited for nothing."""

    def body(machine: Machine, number: int) -> None:
        machine.stream_synchronize()
        machine.host(100)
        machine.launch("gemm", 400)
        machine.host(30 + 2_000 * (number == 4))

    made = begun_with(400, body, steps=10)
    assert len(made.steps) == 9
    assert made.recorded_ns < 0.95 * made.steady_ns  # the sixth took 140
    assert abs(made.errors.recorded) < 1e-3
    assert time_us(made) == pytest.approx(3 + 100 + 7 + 400, abs=0.5)


@pytest.mark.parametrize("host_us", [150, 189, 190, 199, 200, 201, 235, 240, 260])
def test_a_wait_returns_no_sooner_for_being_late(host_us: int) -> None:
    """The work is done at 210 and whoever waits learns of it 30 later, also who begins to wait at 230."""
    made = build(synchronized)
    launch = HostOp("launch", 0, 5_000, duration_ns=200_000, latency_ns=10_000, stream=0)
    wait = HostOp("sync", host_us * 1_000 - 5_000, 2_000, return_ns=30_000, stream=0)
    made = replace(made, steps=((launch, wait),))
    assert time_us(made) == max(240, host_us + 2)
