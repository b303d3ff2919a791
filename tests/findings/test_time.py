"""Where the time of a step goes: breakdown, overlap, Stalls. Every expected number can be worked out in the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.builders import Events, Machine
from tracelens.findings import breakdown, overlap, stalls
from tracelens.model import Location, StepClock, Timeline
from tracelens.trace import timeline
from tracelens.trace.waits import without_explicit_synchronizes

STEPS = 6


def built(events: Events) -> Timeline:
    return timeline.build(events.trace())


def looped(body: Callable[[Machine, int], None], steps: int = STEPS) -> Timeline:
    machine = Machine()
    for number in range(steps):
        with machine.step(number):
            body(machine, number)
    return timeline.build(machine.trace())


def per_batch(machine: Machine, _: int) -> None:
    """570 us: 50 loader, copy 57-157 (call until 160), kernel 167-467, synchronize until 470, 100 host."""
    machine.load_batch(50)
    machine.copy("h2d", "pageable", 100, nbytes=1 << 20)
    machine.launch("gemm", 300)
    machine.host(50)
    machine.synchronize()
    machine.host(100)


# -------------------------------------------------------------------------------------------------------- breakdown


def test_parts_of_a_known_loop():
    times, parts, busy, idle = breakdown.measure(looped(per_batch))
    assert times.median_ns == times.p05_ns == times.p95_ns == 570_000
    assert parts.wall_ns == 570_000 == sum(parts.parts.values())
    assert parts.parts["compute"] == 300_000
    assert parts.parts["copy_exposed"] == 100_000
    assert sum(ns for name, ns in parts.parts.items() if name.startswith("idle")) == 170_000
    assert busy == pytest.approx(400 / 570) and idle == pytest.approx(170 / 570)


def test_parts_of_a_step_of_years_still_add_up():
    events = Events()
    for number in range(3):
        events.step(number, number * 1e14, 1e14)
        kernel = events.call("cudaLaunchKernel", number * 1e14 + 10, 5)
        events.kernel(kernel, "gemm", number * 1e14 + 20, 77_777_777_777_777)
    _, parts, _, _ = breakdown.measure(built(events))
    assert abs(sum(parts.parts.values()) - parts.wall_ns) <= len(parts.parts)


def test_a_memset_is_computation() -> None:
    def cleared(machine: Machine, _: int) -> None:
        machine.memset(100)
        machine.synchronize()

    parts = breakdown.measure(looped(cleared))[1]
    assert parts is not None and parts.parts["compute"] == 100_000


def test_a_copy_under_a_kernel_is_not_counted_twice():
    events = Events()
    events.step(0, 0, 300)
    kernel, copy = events.call("cudaLaunchKernel", 10, 5), events.call("cudaMemcpyAsync", 20, 5)
    events.kernel(kernel, "gemm", 100, 100)
    events.copied(copy, "Memcpy HtoD (Pinned -> Device)", 150, 100, nbytes=1 << 20, stream=20)
    _, parts, busy, _ = breakdown.measure(built(events))
    assert (parts.parts["compute"], parts.parts["copy_exposed"]) == (100_000, 50_000)
    assert busy == 0.5


def test_exposed_communication_has_its_own_part():
    events = Events()
    events.step(0, 0, 400)
    for name, at, stream in (("gemm", 50, 7), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 100, 13)):
        events.kernel(events.call("cudaLaunchKernel", at - 20, 5), name, at, 100, stream=stream)
    _, parts, _, _ = breakdown.measure(built(events))
    assert (parts.parts["compute"], parts.parts["communication_exposed"]) == (100_000, 50_000)


def test_without_a_gpu_there_is_no_breakdown():
    events = Events()
    events.step(0, 0, 100)
    events.add("cpu_op", "aten::mm", 10, 50)
    times, parts, busy, idle = breakdown.measure(built(events))
    assert times.median_ns == 100_000
    assert (parts, busy, idle) == (None, None, None)


def test_the_unprofiled_step_is_taken_along():
    picture = looped(per_batch)
    assert breakdown.measure(picture)[0].unprofiled_median_ns is None
    assert breakdown.measure(picture, StepClock((300, 100, 200), 999))[0].unprofiled_median_ns == 200
    assert breakdown.measure(picture, StepClock((), 999))[0].unprofiled_median_ns == 999


def test_work_outside_the_kept_steps_does_not_count():
    picture = looped(per_batch)
    steps = picture.tables.steps.with_columns(kept=np.arange(STEPS) == 0)
    first = replace(picture, tables=replace(picture.tables, steps=steps))
    times, parts, _, _ = breakdown.measure(first)
    assert times.count == 1 and parts.parts["compute"] == 300_000


# ---------------------------------------------------------------------------------------------------------- overlap


def test_a_pageable_copy_is_exposed_and_blocks():
    found = overlap.measure(looped(per_batch))
    assert (found.h2d_ns, found.h2d_hidden_ns, found.h2d_exposed_ns, found.h2d_blocking_ns) == (
        100_000,
        0,
        100_000,
        100_000,
    )
    assert found.streams_used == 1 and found.concurrent_share == 0


def test_a_prefetched_copy_is_hidden():
    def body(machine: Machine, _: int) -> None:
        machine.launch("gemm", 300)
        machine.copy("h2d", "pinned", 100, nbytes=1 << 20, stream=20)
        machine.host(200)
        machine.synchronize()

    found = overlap.measure(looped(body))
    assert (found.h2d_ns, found.h2d_hidden_ns, found.h2d_blocking_ns) == (100_000, 100_000, 0)
    assert found.streams_used == 2
    assert found.concurrent_share == pytest.approx(100 / 300)


def test_a_copy_that_holds_the_host_by_its_name_blocks_as_well():
    """ROCm does not say what memory it was; `hipMemcpyWithStream` returns when the copy is done."""
    events = Events()
    for number in range(3):
        start = 1000 * number
        events.step(number, start, 1000)
        copy = events.call("hipMemcpyWithStream", start + 10, 120)
        events.copied(copy, "CopyHostToDevice", start + 20, 100)
        events.kernel(events.call("hipLaunchKernel", start + 150, 5), "gemm", start + 160, 500)
    found = overlap.measure(built(events))
    assert (found.h2d_exposed_ns, found.h2d_blocking_ns) == (100_000, 100_000)


def test_a_pinned_copy_blocks_when_the_kernel_was_issued_and_waited():
    def body(machine: Machine, _: int) -> None:
        machine.copy("h2d", "pinned", 100, nbytes=1 << 20)
        machine.launch("gemm", 300)
        machine.synchronize()

    found = overlap.measure(looped(body))
    assert found.h2d_exposed_ns == found.h2d_blocking_ns == 100_000


def test_an_exposed_copy_does_not_block_when_the_host_is_late():
    def body(machine: Machine, _: int) -> None:
        machine.copy("h2d", "pinned", 100, nbytes=1 << 20)
        machine.host(500)
        machine.launch("gemm", 300)
        machine.synchronize()

    found = overlap.measure(looped(body))
    assert found.h2d_exposed_ns == 100_000 and found.h2d_blocking_ns == 0


def test_no_copies_is_a_measured_zero_and_no_gpu_is_unknown():
    found = overlap.measure(looped(lambda machine, _: machine.launch("gemm", 300)))
    assert found.h2d_ns == 0
    events = Events()
    events.step(0, 0, 100)
    assert overlap.measure(built(events)) is None


# ----------------------------------------------------------------------------------------------------------- stalls


def test_waits_without_lines_are_told_apart_by_their_place_in_the_step():
    def body(machine: Machine, _: int) -> None:
        machine.launch("long", 300)
        machine.synchronize()
        machine.launch("short", 20)
        machine.synchronize()

    found = [stall for stall in stalls.group(looped(body)) if stall.verdict != "window_edge"]
    assert [stall.calls_per_step for stall in found] == [1.0, 1.0]
    assert sorted(stall.wait_ns for stall in found) != [found[0].wait_ns] * 2
    assert {stall.kind for stall in found} == {"device"} and {stall.location for stall in found} == {None}


def test_ids_follow_the_cost_and_do_not_depend_on_row_order():
    picture = looped(per_batch)
    found = stalls.group(picture)
    assert [stall.id for stall in found] == [f"s{n}" for n in range(1, len(found) + 1)]
    costs = [(stall.verdict == "window_edge", -stall.gpu_idle_ns, -stall.wait_ns) for stall in found]
    assert costs == sorted(costs)
    shuffled = picture.tables.waits[np.random.default_rng(1).permutation(len(picture.tables.waits))]
    mixed = stalls.group(replace(picture, tables=replace(picture.tables, waits=shuffled)))
    assert [replace(stall, waits=()) for stall in mixed] == [replace(stall, waits=()) for stall in found]


def located(picture: Timeline, **columns) -> Timeline:
    """The timeline with its waits' columns replaced."""
    objects = {name: np.array(values, dtype=object) for name, values in columns.items()}
    waits = without_explicit_synchronizes(picture.tables.waits.with_columns(**objects))
    return replace(picture, tables=replace(picture.tables, waits=waits))


def test_one_line_is_one_stall_however_often_it_waits():
    def body(machine: Machine, _: int) -> None:
        for _ in range(3):
            machine.launch("gemm", 100)
            machine.synchronize()

    picture = looped(body)
    count = len(picture.tables.waits)
    lines = located(picture, path=["train.py"] * count, line=[7] * count, function=["main"] * count)
    found = [stall for stall in stalls.group(lines) if stall.verdict != "window_edge"]
    assert len(found) == 1
    assert found[0].calls_per_step == pytest.approx(3, abs=0.2)  # the last one may be the window's edge
    assert found[0].location == Location("train.py", 7, "main")


def test_many_waits_without_lines_are_one_stall():
    def body(machine: Machine, _: int) -> None:
        for _ in range(40):
            machine.launch("gemm", 5)
            machine.synchronize()

    found = [stall for stall in stalls.group(looped(body)) if stall.verdict != "window_edge"]
    assert len(found) == 1 and found[0].calls_per_step == pytest.approx(40, abs=0.2)


def test_reads_of_every_third_step_are_one_stall_that_is_not_in_each_step():
    def body(machine: Machine, number: int) -> None:
        machine.launch("gemm", 100)
        machine.synchronize()
        for _ in range(3 if number % 3 == 0 else 0):
            machine.item()

    picture = looped(body, steps=10)
    found = {stall.kind: stall for stall in stalls.group(picture) if stall.verdict != "window_edge"}
    steps = breakdown.measure(picture)[0].count
    reading = found["d2h"]
    assert reading.step_share is not None and reading.step_share < 0.5 < reading.calls_per_step
    assert reading.calls_per_step == pytest.approx(3 * reading.step_share)
    assert found["device"].step_share == pytest.approx(1, abs=1.01 / steps)


def test_a_synchronize_behind_a_copy_to_the_gpu_belongs_to_the_copy():
    def body(machine: Machine, _: int) -> None:
        machine.copy("h2d", "pinned", 100, nbytes=1 << 20)
        machine.stream_synchronize()
        machine.launch("gemm", 300)
        machine.stream_synchronize()
        machine.host(50)

    found = [stall for stall in stalls.group(looped(body)) if stall.verdict != "window_edge"]
    assert sorted((stall.kind, stall.wait_ns > 250_000) for stall in found) == [("h2d", False), ("stream", True)]


@pytest.mark.parametrize("known", ["neither", "copy", "synchronize"])
def test_a_read_into_pageable_memory_is_one_call_of_one_stall(known: str):
    """`.cpu()` waits in the copy and once more in the synchronize behind it, wherever its line is known from."""

    def body(machine: Machine, _: int) -> None:
        machine.launch("gemm", 300)
        machine.copy("d2h", "pageable", 10, nbytes=1 << 10)
        machine.stream_synchronize()

    lines = {"neither": [None, None], "copy": [7, None], "synchronize": [None, 7]}[known] * STEPS
    path = [line and "train.py" for line in lines]
    (stall,) = stalls.group(located(looped(body), path=path, line=lines))
    assert (stall.api, stall.kind, stall.calls_per_step) == ("cudaMemcpyAsync", "d2h", 1)
    assert len(stall.waits) == 2 * STEPS and stall.step_share == 1
    assert str(stall.location) == ("None" if known == "neither" else "train.py:7")


def test_a_synchronize_that_the_user_wrote_stays_one():
    def body(machine: Machine, _: int) -> None:
        machine.copy("h2d", "pinned", 100, nbytes=1 << 20)
        machine.stream_synchronize()
        machine.launch("gemm", 300)

    picture = looped(body)
    asked = located(picture, user_call=["Stream.synchronize"] * len(picture.tables.waits))
    (stall,) = stalls.group(asked)
    assert (stall.kind, stall.call) == ("stream", "Stream.synchronize")


def test_the_profilers_own_wait_is_kept_apart():
    machine = Machine()
    for number in range(STEPS):
        with machine.step(number):
            machine.launch("gemm", 300)
            machine.host(400)
    machine.synchronize()
    found = stalls.group(timeline.build(machine.trace()))
    assert [stall.verdict for stall in found] == ["window_edge"]
    judged = stalls.with_exposed(found, {"s1": 10**9}, 1000)
    assert judged == found


def test_a_stall_below_one_percent_of_the_step_is_harmless():
    found = stalls.group(looped(per_batch))[:2]
    judged = stalls.with_exposed(found, {"s1": 5_699, "s2": 5_701}, 570_000)
    assert [stall.verdict for stall in judged] == ["harmless", "exposed"]
    assert [stall.exposed_ns for stall in judged] == [5_699, 5_701]
    assert stalls.with_exposed(found, {}, 570_000) == found
