"""Steps that the machine made slow are left out; steps that the loop makes slow are not."""

from __future__ import annotations

import pytest

from tests.support.builders import Events, Machine
from tracelens.model import RankRecording, StepClock, Timeline
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


def rare(slow_us: int, *, extra: bool = True, kernel_us: float = 300) -> Timeline:
    """Twelve recorded steps of which the fourth takes longer, behind a hundred in which every tenth did."""
    machine = Machine()
    for number in range(12):
        with machine.step(number):
            machine.launch("gemm", kernel_us=kernel_us)
            machine.host(slow_us if number == 3 else 500)
            if number == 3 and extra:
                machine.launch("log", kernel_us=10)
            machine.synchronize()
    steps = [1_000 * (slow_us if number % 10 == 3 else 500) for number in range(100)]
    return timeline.build(machine.trace(), RankRecording(0, None, StepClock(tuple(steps))))


def test_work_of_every_tenth_step_is_told_apart_from_an_ordinary_step() -> None:
    picture = rare(3000)
    assert picture.slow is not None
    assert (picture.slow.rows, picture.slow.pattern.every) == ((3,), 10)
    assert not picture.steps()["kept"][3] and picture.steps()["kept"].sum() == 11
    assert picture.slow.share == pytest.approx(0.25 / 0.75, rel=0.01)
    assert any("1 of 12 steps hold what comes only now and then" in note for note in picture.notes)


def test_steps_that_only_wait_for_the_gpu_are_no_cost() -> None:
    """The host runs ahead and waits in every tenth step for what it has launched: the GPU works all the time."""
    picture = rare(3000, kernel_us=750)
    assert picture.slow is None and picture.steps()["kept"].all()


def test_slow_steps_that_take_next_to_nothing_of_the_time_stay() -> None:
    assert rare(760).slow is None


def once(slow_before: int, steps_before: int = 170) -> Timeline:
    """Twelve recorded steps of which the fourth takes longer and makes another call, behind so many slow ones."""
    machine = Machine()
    for number in range(12):
        with machine.step(number):
            machine.launch("gemm", kernel_us=300)
            machine.host(5000 if number == 3 else 500)
            if number == 3:
                machine.launch("sample", kernel_us=10)
            machine.synchronize()
    before = [5_000_000 if number < slow_before else 800_000 for number in range(steps_before)]
    return timeline.build(machine.trace(), RankRecording(0, None, StepClock(tuple(before[::-1]))))


@pytest.mark.parametrize("slow_before", [0, 1])
def test_what_comes_less_often_than_the_window_has_it_is_left_out_and_said(slow_before: int) -> None:
    """Samples that are shown every 200 steps made `aten::multinomial` the cause of every step."""
    picture = once(slow_before)
    assert picture.steps()["kept"].tolist() == [True] * 3 + [False] + [True] * 8
    assert any("1 of 12 steps took more than 1.5 x the time of the others, as next to none" in n for n in picture.notes)


@pytest.mark.parametrize(("slow_before", "steps_before"), [(0, 40), (3, 170), (20, 170)])
def test_what_may_come_as_often_stays_or_is_told_of_apart(slow_before: int, steps_before: int) -> None:
    picture = once(slow_before, steps_before)
    assert picture.steps()["kept"].all() or picture.slow is not None


def test_a_loader_that_delivers_in_bursts_is_the_loaders() -> None:
    events = Events()
    for number in range(12):
        at, wait = 10_000.0 * number, 8_000.0 if number % 4 == 3 else 100.0
        events.step(number, at, wait + 500)
        events.loader(at + 1, wait)
        correlation = events.call("cudaLaunchKernel", at + wait + 10, 5)
        events.kernel(correlation, "gemm", at + wait + 20, 300)
    steps = [8_500_000 if number % 4 == 3 else 600_000 for number in range(100)]
    picture = timeline.build(events.trace(), RankRecording(0, None, StepClock(tuple(steps))))
    assert picture.slow is None and picture.steps()["kept"].all()
