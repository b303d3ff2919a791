"""What a step would be without an owner: built loops, in which it can be worked out in the head."""

from __future__ import annotations

import pytest

from tests.support.builders import AUTOGRAD, ISSUE_US, KERNEL_GAP_US
from tests.support.clocked_loops import ClockedLoop
from tracelens.model import Location, Owner


def replayed(loop: ClockedLoop) -> tuple[Owner, ...]:
    return loop.owners(replayed=True).owners


def ms(ns: int | None) -> float:
    assert ns is not None
    return ns / 1e6


def test_a_line_that_reads_one_value_after_the_other_goes_with_its_launches() -> None:
    """Line 11 launches, takes 50 µs of Python and reads, twenty times; the reads alone wait for next to nothing."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).launch("gemm", 100)
        machine = each.at(11)
        for _ in range(20):
            machine.host(50)
            machine.launch("norm", 1)
            machine.item()
        each.at(12).host(1000)

    loop.run(body)
    (wait,) = (owner for owner in replayed(loop) if owner.kind == "wait")
    assert wait.locations == (Location("train.py", 11, "main"),)
    assert wait.low_ns is not None and wait.high_ns is not None
    assert ms(wait.recoverable_ns) > 20 * 0.05
    assert ms(wait.low_ns) < 20 * 0.05 / 2 < ms(wait.recoverable_ns) <= ms(wait.high_ns)


def test_a_line_that_launches_a_whole_model_does_not_go_with_its_wait() -> None:
    """Line 11 launches forty kernels and waits once: without the wait the GPU is a step behind, and that is all."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        machine = each.at(11)
        for _ in range(40):
            machine.launch("gemm", 10)
            machine.host(20)
        machine.synchronize()
        each.at(12).host(100)

    loop.run(body)
    (wait,) = (owner for owner in replayed(loop) if owner.kind == "wait")
    assert ms(wait.recoverable_ns) < 0.1


def with_model(each: ClockedLoop, number: int) -> None:
    """A forward operation at line 10."""
    with each.at(10).operation("aten::mul", number):
        each.machine.launch("mul", 10)


def crops(each: ClockedLoop, number: int) -> None:
    """Twenty images one by one, 20 µs of Python at line 11 and 30 µs at line 12, before the model's own work."""
    for _ in range(20):
        each.at(11).host(20)
        each.at(12).host(30)
        each.at(12).launch("flip", 1)
    with_model(each, number)
    each.at(13)
    with each.machine.node("MulBackward0", number):
        each.machine.launch("mul", 10, thread=AUTOGRAD)


def test_the_lines_of_a_loop_within_the_step_are_one_owner_too() -> None:
    loop = ClockedLoop()
    loop.run(crops)
    found = loop.owners(replayed=True)
    (crop,) = found.loops
    assert [place.line for place in crop.locations] == [11, 12]
    assert crop.loop == (11, 12)
    host = 20 * (50 + ISSUE_US) / 1000
    assert host - 20 * (1 + KERNEL_GAP_US) / 1000 - 0.02 <= ms(crop.recoverable_ns) <= host  # its kernels stay
    assert ms(crop.owned_ns) == pytest.approx(host, rel=0.15)
    lines = (owner for owner in found.owners if owner.locations and owner.locations[0].line in (11, 12))
    assert (
        max((ms(one.recoverable_ns) for one in lines if one.recoverable_ns), default=0) < ms(crop.recoverable_ns) / 1.1
    )


def test_parts_of_a_batch_that_are_trained_one_by_one_are_no_such_loop() -> None:
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        for part in range(20):
            each.at(11).host(20)
            with_model(each, number * 20 + part)
        each.at(13)
        for part in range(20):
            with each.machine.node("MulBackward0", number * 20 + part):
                each.machine.launch("mul", 10, thread=AUTOGRAD)

    loop.run(body)
    assert loop.owners(replayed=True).loops == ()


def test_waits_that_pay_only_together_are_one_owner() -> None:
    """The GPU has 1000 µs of work, the host 1000 µs: either wait alone makes them take turns."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).launch("gemm", 1000)
        each.at(11).synchronize()
        each.at(12).stream_synchronize()
        each.at(13).host(1000)

    loop.run(body)
    (wait,) = (owner for owner in replayed(loop) if owner.kind == "wait")
    assert sorted(place.line or 0 for place in wait.locations) == [11, 12]
    assert wait.group is not None and wait.group.count("+") == 1
    assert ms(wait.recoverable_ns) == pytest.approx(1.0, abs=0.05)
    assert wait.low_ns is not None and wait.high_ns is not None and wait.low_ns <= wait.high_ns


@pytest.mark.parametrize(
    ("copied_us", "computed_us", "gained_us"),
    [
        pytest.param(8_000, 1_000, 0, id="whoever pins the batches copies them, too: 10,400 by its factor of 1.3"),
        pytest.param(2_000, 6_000, 2_000, id="the pin thread copies while the host computes"),
    ],
)
def test_a_batch_from_pageable_memory_gives_back_what_pinning_it_gives(
    copied_us: int, computed_us: int, gained_us: int
) -> None:
    """A batch that is there at once, its copy, and 1000 or 6000 of Python under which the GPU computes."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).load_batch(50)
        each.at(11).copy("h2d", "pageable", copied_us, nbytes=8_000 * copied_us)
        each.at(12).launch("gemm", 500)
        each.machine.host(computed_us)

    loop.run(body)
    (copy,) = (owner for owner in replayed(loop) if owner.kind == "copy" and owner.group)
    assert copy.locations == (Location("train.py", 11, "main"),)
    assert ms(copy.recoverable_ns) == pytest.approx(gained_us / 1000, abs=0.1)


@pytest.mark.parametrize(
    ("before_us", "after_us"),
    [
        pytest.param(0, 3_000, id="the memory of the batch is given back"),
        pytest.param(3_000, 0, id="a transform"),
        pytest.param(3_000, 3_000, id="both"),
    ],
)
def test_what_a_line_does_behind_its_upload_has_to_be_done_in_any_case(before_us: int, after_us: int) -> None:
    """`images = transform(images).to(device)`: without the transform the step is 3 ms shorter. Pinned batches are given
    back by another thread, which holds the interpreter as long: they bring what the copy takes, and not this."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).load_batch(50)
        each.at(11).host(before_us)
        each.machine.copy("h2d", "pageable", 2_000, nbytes=16_000_000)
        each.machine.host(after_us)
        each.at(12).launch("gemm", 500)
        each.machine.host(1_000)

    loop.run(body)
    owners = replayed(loop)
    (copy,) = (owner for owner in owners if owner.kind == "copy" and owner.group)
    (line,) = (owner for owner in owners if owner.kind == "host_line" and owner.locations[0].line == 11)
    assert line.recoverable_ns is not None
    if before_us:
        assert ms(line.recoverable_ns) == pytest.approx(3.0, abs=0.1)
    else:
        assert (line.low_ns, line.recoverable_ns, line.high_ns) == (copy.low_ns, copy.recoverable_ns, copy.high_ns)


@pytest.mark.parametrize(
    ("loading", "instead", "saved"),
    [(800, "batches that are ready", 0.8), (4_000, "1 worker instead of 0", 3.0)],
    ids=["a worker hands over in 1,000", "a worker pays"],
)
def test_a_batch_that_the_training_thread_makes_is_a_line_of_python_where_a_worker_brings_nothing(
    loading: int, instead: str, saved: float
) -> None:
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        machine = each.at(10)
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        machine.events.annotation(name, machine.now, loading)
        machine.host(loading)
        each.at(11).launch("gemm", 100)
        each.at(12).host(4_000)

    loop.run(body)
    (loader,) = (owner for owner in replayed(loop) if owner.kind == "dataloader")
    assert loader.instead == instead
    assert ms(loader.recoverable_ns) == pytest.approx(saved, abs=0.01)
    if loading < 1_000:
        assert loader.low_ns == 0


def test_a_slow_node_of_the_backward_pass_belongs_to_the_line_of_its_forward_operation() -> None:
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        with_model(each, number)
        each.at(11)
        with each.machine.node("PauseBackward", number):
            each.machine.host(3000)
            each.machine.launch("mul", 10, thread=AUTOGRAD)
        each.at(12).host(200)

    loop.run(body)
    slow = next(owner for owner in replayed(loop) if owner.kind == "backward")
    assert (slow.callee, slow.locations[0].line) == ("PauseBackward", 10)
    assert ms(slow.recoverable_ns) == pytest.approx(3.0, rel=0.03)


def test_launches_for_one_tensor_after_the_other_are_an_owner_with_a_line() -> None:
    """Line 12 launches the same ten times, 30 µs apart; the model's own line launches once."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        with_model(each, number)
        each.at(11)
        with each.machine.node("MulBackward0", number):
            each.machine.launch("mul", 10, thread=AUTOGRAD)
        machine = each.at(12)
        for _ in range(10):
            machine.host(25)
            machine.launch("lerp", 2)
        each.at(13)

    loop.run(body)
    (looping,) = (owner for owner in replayed(loop) if owner.kind == "launch" and owner.recoverable_ns is not None)
    assert looping.locations[0].line == 12 and looping.of_one_line
    assert not any(owner.of_one_line for owner in replayed(loop) if owner.locations[:1] != looping.locations[:1])
    host = 10 * (25 + ISSUE_US) / 1000
    assert host - 10 * (2 + KERNEL_GAP_US) / 1000 - 0.02 <= ms(looping.recoverable_ns) <= host  # its kernels stay


def test_a_line_that_computes_on_the_host_and_launches_in_a_loop_gives_back_both() -> None:
    """Line 12 takes 600 µs of Python (a deep copy's), and then launches a copy of each of ten tensors."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        with_model(each, number)
        each.at(11)
        with each.machine.node("MulBackward0", number):
            each.machine.launch("mul", 10, thread=AUTOGRAD)
        machine = each.at(12)
        machine.host(600)
        for _ in range(10):
            machine.host(25)
            machine.launch("copy", 2)
        each.at(13)

    loop.run(body)
    python, launches = (
        next(
            owner
            for owner in replayed(loop)
            if owner.kind == kind and owner.locations[:1] == (Location("train.py", 12, "main"),)
        )
        for kind in ("host_line", "launch")
    )
    assert ms(python.recoverable_ns) == ms(launches.recoverable_ns) > 0.600 + 10 * 0.025
    assert ms(launches.low_ns) < 0.4 < ms(python.low_ns)  # the work between its calls is sure to go


def test_an_optimizer_that_takes_its_tensors_one_by_one_could_take_them_at_once() -> None:
    """Twenty operations of 30 µs that launch, and 10 µs of Python before each: the first go, the others may."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).launch("gemm", 50)
        machine = each.at(11)
        began = machine.now
        for _ in range(20):
            machine.host(10)
            with machine.operation("aten::add_"):
                machine.host(25)
                machine.launch("add", 2)
        machine.events.annotation("Optimizer.step#SGD.step", began, machine.now - began)
        each.at(12).host(100)

    loop.run(body)
    (optimizer,) = (owner for owner in replayed(loop) if owner.kind == "optimizer")
    assert optimizer.low_ns is not None
    assert ms(optimizer.low_ns) < 20 * 0.030 <= ms(optimizer.recoverable_ns) <= 20 * 0.040
    assert ms(optimizer.high_ns) == pytest.approx(20 * 0.040, abs=0.06)
    assert optimizer.instead == "all tensors taken at once"
