"""Steps that the machine made slow are left out; steps that the loop makes slow are not."""

from __future__ import annotations

import pytest

from tests.support.builders import Events, Machine
from tracelens.model import StepClock, Timeline
from tracelens.replay import trace_builder
from tracelens.trace import timeline


def loop(host_us: list[int], *, extra_launch: int | None = None) -> Timeline:
    """One kernel and a synchronize per step, with so much Python between them."""
    machine = Machine()
    for number, python in enumerate(host_us):
        with machine.step(number):
            machine.launch("gemm", kernel_us=300)
            machine.host(python)
            if number == extra_launch:
                machine.launch("log", kernel_us=10)
            machine.synchronize()
    return timeline.build(machine.trace())


def test_one_slow_step_with_the_same_calls_is_left_out_and_said() -> None:
    picture = loop([500] * 4 + [3000] + [500] * 5)
    assert picture.steps()["kept"].tolist() == [True] * 4 + [False] + [True] * 5
    assert any("1 of 10 steps took more than 1.5 x" in note for note in picture.notes)


@pytest.mark.parametrize(
    ("host_us", "extra_launch"),
    [
        ([500] * 4 + [3000] + [500] * 5, 4),  # other calls: the loop's own doing
        ([500, 3000] * 5, None),  # every second step is slow: so is the loop
        ([500] * 3 + [3000] + [500] * 3, None),  # seven steps do not tell which is the exception
        ([500] * 9 + [700], None),  # 1.25 times the others
    ],
)
def test_other_slow_steps_stay(host_us: list[int], extra_launch: int | None) -> None:
    assert loop(host_us, extra_launch=extra_launch).steps()["kept"].all()


def test_waiting_for_a_worker_is_no_hiccup() -> None:
    events = Events()
    for number in range(10):
        at, wait = 10_000.0 * number, 8_000.0 if number == 5 else 100.0
        events.step(number, at, wait + 500)
        events.loader(at + 1, wait)
        correlation = events.call("cudaLaunchKernel", at + wait + 10, 5)
        events.kernel(correlation, "gemm", at + wait + 20, 300)
    assert timeline.build(events.trace()).steps()["kept"].all()


def test_the_unprofiled_step_is_the_typical_one() -> None:
    assert trace_builder._unprofiled(StepClock((100,) * 95 + (900,) * 5, 140)) == 100
    assert (
        trace_builder._unprofiled(StepClock((100,) * 90 + (900,) * 10, 180)) == 180
    )  # every tenth step: the loop's own
    assert trace_builder._unprofiled(StepClock((100, 101), 99)) == 99
    assert trace_builder._unprofiled(StepClock()) is None
