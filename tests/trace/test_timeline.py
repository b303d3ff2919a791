"""The Timeline on traces whose every number can be worked out in the head (times in us; tables hold ns)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.builders import AUTOGRAD, BASE_NS, MAIN, STREAM, Events, Machine
from tracelens.model import Location, RankRecording, SourceMark, StackSample, Timeline
from tracelens.trace import intervals, timeline

US = 1000


def looped(body: Callable[[Machine], None], steps: int = 4, **machine: Any) -> Timeline:
    host = Machine(**machine)
    for number in range(steps):
        with host.step(number):
            body(host)
    return timeline.build(host.trace())


def built(events: Events, recording: RankRecording | None = None) -> Timeline:
    return timeline.build(events.trace(), recording)


def idle_us(picture: Timeline, step: int) -> dict[str, float]:
    """Idle time of a step by cause."""
    gaps = picture.idle_gaps()
    gaps = gaps[gaps["step"] == step]
    lengths = (gaps["end_ns"] - gaps["start_ns"]).groupby(gaps["cause"].astype(str)).sum()
    return {cause: ns / US for cause, ns in lengths.items()}


def assert_every_nanosecond_has_one_owner(picture: Timeline) -> None:
    """Idle rows do not overlap, and with the busy time they fill the kept steps."""
    gaps, ops, steps = picture.idle_gaps(), picture.ops(), picture.steps()
    for device, mine in gaps.groupby("device"):
        rows = mine.sort_values("start_ns")
        assert (rows["end_ns"] > rows["start_ns"]).all()
        assert (rows["start_ns"].to_numpy()[1:] >= rows["end_ns"].to_numpy()[:-1]).all()
        busy = intervals.union(*(ops.loc[ops["device"] == device, key] for key in ("start_ns", "end_ns")))
        for position, step in steps[steps["kept"]].iterrows():
            idle = rows[rows["step"] == position]
            covered = intervals.total(intervals.clip(busy, step["start_ns"], step["end_ns"]))
            assert int((idle["end_ns"] - idle["start_ns"]).sum()) + covered == step["end_ns"] - step["start_ns"]


def per_batch(machine: Machine) -> None:
    """622 us: loader 0-40, copy call 40-100, kernels 107-407, 408-508, synchronize until 511, `.item()` until 522."""
    machine.load_batch(40)
    machine.copy("h2d", "pageable", 50, nbytes=1 << 20)
    machine.launch("gemm", 300)
    machine.host(20)
    machine.launch("relu", 100)
    machine.synchronize()
    machine.item()
    machine.host(100)


# ----------------------------------------------------------------------------------------------------------- tables


def test_the_tables_of_a_known_loop() -> None:
    picture = looped(per_batch)
    steps, calls, ops = picture.steps(), picture.calls(), picture.ops()
    assert picture.step_source == "profiler_step" and picture.main_thread == MAIN
    assert list(steps["number"]) == [0, 1, 2, 3] and steps["kept"].all() and not steps["attributed"].any()
    assert list(np.unique(steps["end_ns"] - steps["start_ns"])) == [622 * US]
    first = calls[calls["step"] == 1]
    assert list(first["kind"]) == ["copy", "launch", "launch", "device_sync", "copy", "stream_sync"]
    assert list(first["stream"]) == [7, 7, 7, -1, 7, 7]
    assert list(ops["kind"][:4]) == ["copy", "kernel", "kernel", "copy"]
    assert list(ops["direction"][:4]) == ["h2d", "", "", "d2h"] and list(ops["memory"][:4]) == [
        "pageable",
        "",
        "",
        "pinned",
    ]
    assert list(ops["bytes"][:4]) == [1 << 20, -1, -1, 4]
    assert (calls["op"].to_numpy()[ops["call"]] == np.arange(len(ops))).all()
    assert list(picture.loader_waits()["step"]) == [0, 1, 2, 3]
    assert picture.streams().to_dict("list") == {"device": [0], "stream": [7], "ops": [16], "busy_ns": [4 * 451 * US]}


def test_the_waits_of_a_known_loop() -> None:
    waits = looped(per_batch).syncs()
    mine = waits[waits["step"] == 1]
    assert list(mine["api"]) == ["cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaStreamSynchronize"]
    assert list(mine["kind"]) == ["h2d", "device", "d2h"]
    assert list(mine["wait_ns"]) == [55 * US, 378 * US, 3 * US]  # 60 less 5 to issue; until the work is done
    assert not mine["window_edge"].any()
    assert list(mine["location_source"]) == ["none"] * 3 and mine["path"].isna().all()


def test_the_idle_time_of_a_known_loop() -> None:
    picture = looped(per_batch)
    assert_every_nanosecond_has_one_owner(picture)
    # 40 in the loader; 7 until the copy starts; 10 from its end to the kernel; 1 between kernels; return and refill.
    assert idle_us(picture, 1) == {"dataloader": 40, "launch": 1, "sync": 7 + 10 + 8 + 2 + 103}
    waits = picture.syncs()
    assert list(waits.loc[waits["step"] == 1, "gpu_idle_ns"]) == [17 * US, 8 * US, 105 * US]


def test_a_loop_that_the_gpu_never_keeps_waiting_owns_no_idle_time() -> None:
    """Ten launches, each followed by 50 us of Python; the kernel of 10 us is done long before the next one."""

    def body(machine: Machine) -> None:
        for _ in range(10):
            machine.launch("small", 10)
            machine.host(50)
        machine.synchronize()

    picture = looped(body)
    assert_every_nanosecond_has_one_owner(picture)
    idle = idle_us(picture, 1)
    assert idle["sync"] == 5  # its own call
    assert idle["launch"] == 10 * 7
    assert idle["host"] == 10 * (55 - 7 - 10)
    assert list(picture.syncs()["wait_ns"]) == [0] * 4


def test_a_wait_owns_no_more_idle_time_than_the_lead_it_destroyed() -> None:
    """The GPU has 98 us to go when the host waits; the 1,000 us of Python after that are the host's own."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 96)
        machine.synchronize()
        machine.host(1000)

    picture = looped(body)
    idle = idle_us(picture, 1)
    assert idle["sync"] == 96
    assert idle["sync"] + idle["host"] + idle["launch"] == 1000 + 3 + 7
    assert picture.syncs()["gpu_idle_ns"][1] == 96 * US


def test_refill_belongs_to_the_wait_and_the_loader_to_itself() -> None:
    """After a long wait three short kernels leave gaps until a long one fills the queue again."""

    def body(machine: Machine) -> None:
        for _ in range(3):
            machine.launch("short", 10)
            machine.host(40)
        machine.launch("long", 2000)
        machine.synchronize()

    idle = idle_us(looped(body), 1)
    assert set(idle) == {"sync"}
    assert idle["sync"] == 3 + 7 + 3 * (45 - 10)


def test_gaps_are_cut_where_a_step_ends() -> None:
    events = Events()
    for number, (at, kernel) in enumerate(((0, 50), (100, 190), (200, 210))):
        events.step(number, at, 100)
        events.kernel(events.call("cudaLaunchKernel", at + 5, 5), "gemm", kernel, 20)
    picture = built(events)
    assert_every_nanosecond_has_one_owner(picture)
    gap = picture.idle_gaps()[lambda rows: rows["next_op"] == 1]
    assert set(gap["step"]) == {0, 1} and (gap["end_ns"] == 100 * US).any()


def test_work_on_a_second_stream_is_not_idle() -> None:
    events = Events()
    events.step(0, 0, 100)
    first, second = events.call("cudaLaunchKernel", 0, 5), events.call("cudaLaunchKernel", 6, 5)
    events.kernel(first, "a", 10, 40)
    events.kernel(second, "b", 40, 60, stream=9)
    picture = built(events)
    assert idle_us(picture, 0) == {"launch": 10}


def test_work_whose_launch_is_not_recorded() -> None:
    events = Events()
    events.step(0, 0, 200)
    events.kernel(999, "early", 0, 50)
    events.kernel(998, "late", 60, 40)
    events.kernel(997, "later", 180, 20)
    picture = built(events)
    assert list(picture.ops()["call"]) == [-1, -1, -1]
    assert idle_us(picture, 0) == {"launch": 10, "other": 80}
    assert any("no launch call" in note for note in picture.notes)


def test_two_processes_in_one_file_are_kept_apart_as_far_as_time_tells() -> None:
    """Merged by somebody's tool: both count their calls from 1. A kernel is the later one's if its call came before."""
    events = Events()
    for process, at in ((MAIN, 0), (200, 1000)):
        for number in range(3):
            args = {"correlation": number + 1}
            row = {"pid": process, "tid": process, "args": args}
            events.add("cuda_runtime", "cudaLaunchKernel", at + 10 * number, 5, **row)
            events.kernel(number + 1, "gemm", at + 10 * number + 7, 2)
    picture = built(events)
    assert list(picture.ops()["call"]) == [0, 1, 2, 3, 4, 5]
    assert any("2 processes" in note for note in picture.notes)


def test_each_device_has_its_own_gaps() -> None:
    events = Events()
    events.step(0, 0, 100)
    for device, at in ((0, 10), (1, 50)):
        events.kernel(events.call("cudaLaunchKernel", at - 5, 5), "gemm", at, 50, device=device)
    picture = built(events)
    assert_every_nanosecond_has_one_owner(picture)
    lengths = picture.idle_gaps().groupby("device").apply(lambda rows: int((rows["end_ns"] - rows["start_ns"]).sum()))
    assert lengths.to_dict() == {0: 50 * US, 1: 50 * US}


def test_allocations_own_their_time_as_other() -> None:
    def body(machine: Machine) -> None:
        machine.events.call("cudaMalloc", machine.now, 200)
        machine.host(200)
        machine.launch("gemm", 50)
        machine.synchronize()

    picture = looped(body)
    waits = picture.syncs()
    assert idle_us(picture, 1)["other"] == 200
    assert list(waits.loc[waits["kind"] == "alloc", "wait_ns"]) == [200 * US] * 4
    assert list(waits.loc[waits["kind"] == "alloc", "gpu_idle_ns"]) == [200 * US] * 4


# ------------------------------------------------------------------------------------------------------------ waits


def test_a_read_into_pageable_memory_waits_inside_the_copy() -> None:
    def body(machine: Machine) -> None:
        machine.launch("gemm", 500)
        machine.copy("d2h", "pageable", 10, nbytes=64)
        machine.stream_synchronize()

    waits = looped(body).syncs()
    assert list(waits["kind"][:2]) == ["d2h", "d2h"]
    assert list(waits["wait_ns"][:2]) == [(7 + 500 + 1 + 10 + 3 - 5 - 5) * US, 0]


def test_an_upload_and_its_synchronize_in_one_operation_are_one_kind() -> None:
    def body(machine: Machine) -> None:
        began = machine.now
        machine.copy("h2d", "pinned", 50)
        machine.stream_synchronize()
        machine.events.add("cpu_op", "aten::copy_", began - 0.5, machine.now - began + 0.5)
        machine.copy("h2d", "pinned", 50)
        machine.stream_synchronize()  # the user's own

    assert list(looped(body).syncs()["kind"][:2]) == ["h2d", "stream"]


def test_a_stream_synchronize_waits_for_its_stream_only() -> None:
    def body(machine: Machine) -> None:
        machine.launch("long", 1000)
        machine.launch("short", 100, stream=20)
        machine.stream_synchronize(20)

    waits = looped(body).syncs()
    assert list(waits["stream"]) == [20] * 4
    assert waits["wait_ns"][0] == (5 + 7 + 100 - 10) * US


def test_an_event_synchronize_without_a_target_ends_with_what_completed() -> None:
    def body(machine: Machine) -> None:
        machine.launch("gemm", 300)
        done = machine.record_event()
        machine.launch("next", 300)
        machine.event_synchronize(done)

    waits = looped(body).syncs()
    assert list(waits["kind"]) == ["event"] * 4
    assert waits["wait_ns"][0] == (7 + 300 - 15) * US


def test_a_synchronize_waits_for_work_that_was_queued_before_the_window() -> None:
    """Two kernels whose launches are not recorded; the one that starts after the call began was queued before it too,
    because work that the trace shows being launched comes after them on their stream."""
    machine = Machine(now=100)
    for at in (0, 501):
        machine.events.kernel(9_999, "old", at, 499)
    machine.stream_end[STREAM] = 1000
    machine.synchronize()
    machine.launch("new", 20)
    waits = built(machine.events).syncs()
    assert list(waits["wait_ns"]) == [900 * US]


def test_targets_come_from_sync_rows_or_from_the_only_stream() -> None:
    with_rows = looped(per_batch)
    without = looped(per_batch, sync_rows=False)
    assert without.syncs()["wait_ns"].equals(with_rows.syncs()["wait_ns"])
    assert list(without.syncs()["stream"]) == list(with_rows.syncs()["stream"])
    assert "sync_events" not in without.trace.signals


def test_resolved_event_rows_name_stream_and_record() -> None:
    events = Events()
    events.step(0, 0, 200)
    events.kernel(events.call("cudaLaunchKernel", 0, 5), "gemm", 10, 50)
    record, wait = events.call("cudaEventRecord", 6, 2), events.call("cudaStreamWaitEvent", 9, 2)
    resolved = {"wait_on_stream": 7, "wait_on_cuda_event_id": 3, "wait_on_cuda_event_record_corr_id": record}
    events.sync_row(wait, "Stream Wait Event", 9, 2, stream=20, **resolved)
    calls = built(events).calls().set_index("name")
    assert calls.loc["cudaEventRecord", ["stream", "event"]].tolist() == [7, 3]
    assert calls.loc["cudaStreamWaitEvent", ["stream", "event"]].tolist() == [20, 3]


def test_sync_rows_are_no_gpu_work() -> None:
    assert set(looped(per_batch).ops()["kind"]) == {"copy", "kernel"}


def test_rocm_copies_block_by_name_and_by_time() -> None:
    events = Events()
    events.step(0, 0, 1000)
    events.kernel(events.call("hipLaunchKernel", 0, 5), "gemm", 10, 300)
    events.copied(events.call("hipMemcpyWithStream", 10, 315), "CopyDeviceToHost", 311, 10)
    events.copied(events.call("hipMemcpyAsync", 400, 50), "CopyHostToDevice", 410, 30)
    events.copied(events.call("hipMemcpyAsync", 500, 5), "CopyHostToDevice", 510, 30)
    waits = built(events).syncs()
    assert list(waits["kind"]) == ["d2h", "h2d"]
    assert list(waits["wait_ns"]) == [310 * US, 45 * US]


def test_the_drain_of_the_profiler_is_the_window_edge() -> None:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            machine.launch("gemm", 5000)
            machine.synchronize()
    machine.host(10)
    machine.synchronize()
    waits = timeline.build(machine.trace()).syncs()
    assert list(waits["window_edge"]) == [False, False, False, True]
    assert waits["step"].iloc[-1] == -1


def test_the_drain_owns_no_idle_time() -> None:
    """Without steps it lies within the one step, and the GPU has nothing to do while it waits and returns."""
    machine = Machine()
    machine.launch("gemm", 100)
    machine.host(500)
    machine.synchronize()
    machine.events.copied(9_999, "Memcpy DtoD (Device -> Device)", machine.now + 50, 10)
    picture = built(machine.events)
    assert picture.step_source == "none" and list(picture.syncs()["window_edge"]) == [True]
    assert list(picture.syncs()["gpu_idle_ns"]) == [0]
    assert "sync" not in idle_us(picture, 0)
    assert_every_nanosecond_has_one_owner(picture)


def test_what_the_gpu_did_before_its_first_recorded_operation_is_not_idle_time() -> None:
    """A graph replay that waits for 8 ms of work launched before the window, which some profilers leave out."""
    events = Events()
    graph = events.call("hipGraphLaunch", 0, 500)
    for number in range(10):
        events.kernel(graph, "decode", 8_000 + 100 * number, 100)
    picture = built(events)
    assert picture.step_source == "none" and list(picture.ops()["step"]) == [0] * 10
    assert sum(idle_us(picture, 0).values()) == 30  # as long as a launch may take
    assert_every_nanosecond_has_one_owner(picture)


def test_a_drain_from_a_thread_of_the_profilers_own_is_the_window_edge() -> None:
    """On demand, the profiler is stopped from outside, in the middle of a step; its thread launches nothing."""
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            per_batch(machine)
            if number == 2:
                machine.events.call("cudaDeviceSynchronize", machine.now, 500, thread=77)
                machine.host(500)
    waits = built(machine.events).syncs()
    assert list(waits.loc[waits["window_edge"], "thread"]) == [77]
    assert list(waits.loc[waits["window_edge"], "step"]) == [2]


def test_the_last_synchronize_of_the_loop_is_the_users() -> None:
    def body(machine: Machine) -> None:
        machine.launch("gemm", 500)
        machine.synchronize()

    assert not looped(body).syncs()["window_edge"].any()


# ------------------------------------------------------------------------------------------------------------ steps


def test_steps_of_our_own_recording() -> None:
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            per_batch(machine)
    recording = RankRecording(0, None, attributed_steps=(3,), meta={"step_marks": "tracelens"})
    picture = built(machine.events, recording)
    assert picture.step_source == "tracelens"
    assert list(picture.steps()["attributed"]) == [False, False, False, True]
    assert list(picture.steps()["kept"]) == [True, True, True, False]
    assert set(picture.idle_gaps()["step"]) == {0, 1, 2}


def test_a_last_mark_that_was_cut_off_is_not_kept() -> None:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            per_batch(machine)
    with machine.step(3):
        machine.host(5)
    picture = built(machine.events)
    assert list(picture.steps()["kept"]) == [True, True, True, False]
    assert any("cut off" in note for note in picture.notes)


def test_pauses_between_marks_belong_to_the_step_before_and_long_ones_to_none() -> None:
    events = Events()
    for number, at in enumerate((0, 105, 210, 1000)):
        events.step(number, at, 100)
        events.kernel(events.call("cudaLaunchKernel", at + 1, 5), "gemm", at + 10, 20)
    steps = built(events).steps()
    assert list(steps["end_ns"]) == [105 * US, 210 * US, 310 * US, 1100 * US]


def test_work_belongs_to_the_step_of_its_launch() -> None:
    events = Events()
    for number in range(2):
        events.step(number, 100 * number, 100)
        events.kernel(events.call("cudaLaunchKernel", 100 * number + 50, 5), "gemm", 100 * number + 120, 60)
    assert list(built(events).ops()["step"]) == [0, 1]


@pytest.mark.parametrize("source", ["dataloader", "optimizer", "cycle", "none"])
def test_steps_without_marks(source: str) -> None:
    machine = Machine()
    for _ in range(1 if source == "none" else 6):
        if source == "dataloader":
            machine.load_batch(30)
        machine.copy("h2d", "pageable", 20)
        for layer in range(5):
            machine.launch(f"layer{layer}", 50)
        machine.synchronize()
        if source == "optimizer":
            machine.events.annotation("Optimizer.step#SGD.step", machine.now, 10)
            machine.host(10)
    picture = built(machine.events)
    steps = picture.steps()
    assert picture.step_source == source
    assert len(steps) == (1 if source == "none" else 5) and steps["kept"].all()
    assert len(set(steps["end_ns"] - steps["start_ns"])) == 1
    assert_every_nanosecond_has_one_owner(picture)


def test_the_order_in_which_sources_are_asked() -> None:
    """One loop with everything; what tells the steps is taken away, best first. A step takes 315 us."""
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.load_batch(30)
            machine.copy("h2d", "pinned", 20)
            for layer in range(5):
                machine.launch(f"layer{layer}", 50)
            machine.synchronize()
            machine.events.annotation("Optimizer.step#SGD.step", machine.now, 10)
            machine.host(10)
    length = machine.now / 6
    ours = RankRecording(0, None, meta={"step_marks": "tracelens"})
    found = []
    for gone in ("", "ProfilerStep", "enumerate(DataLoader)", "Optimizer.step"):
        machine.events.rows = [row for row in machine.events.rows if not gone or not row["name"].startswith(gone)]
        picture = built(machine.events, ours if not found else None)
        steps = picture.steps()
        assert set(steps["end_ns"] - steps["start_ns"]) == {length * US}
        found.append((picture.step_source, len(steps), steps["start_ns"][0] / US))
    assert found == [
        ("tracelens", 6, 0),
        ("dataloader", 5, 0),  # from batch to batch
        ("optimizer", 5, length - 30),  # from update to update; the trace now begins with the copy
        ("cycle", 5, 0),  # from copy to copy
    ]


def test_accumulated_batches_are_one_step() -> None:
    machine = Machine()
    for batch in range(12):
        machine.load_batch(30)
        machine.launch("gemm", 50)
        machine.synchronize()
        if batch % 4 == 3:
            machine.events.annotation("Optimizer.step#SGD.step", machine.now, 10)
            machine.host(10)
    picture = built(machine.events)
    assert (picture.step_source, len(picture.steps())) == ("optimizer", 2)


def test_the_rarer_of_two_optimizers_sets_the_pace() -> None:
    machine = Machine()
    for number in range(9):
        machine.launch("gemm", 50)
        name = "Optimizer.step#AdamW.step" if number % 3 == 2 else "Optimizer.step#Adam.step"
        machine.events.annotation(name, machine.now, 10)
        machine.host(20)
    assert len(built(machine.events).steps()) == 2


def test_a_trace_without_a_gpu_has_steps_and_empty_tables() -> None:
    events = Events()
    for number in range(3):
        events.step(number, 100 * number, 100)
        events.add("cpu_op", "aten::mm", 100 * number + 10, 50)
    picture = built(events)
    assert len(picture.steps()) == 3 and picture.steps()["kept"].all()
    for table in (
        picture.calls(),
        picture.ops(),
        picture.syncs(),
        picture.idle_gaps(),
        picture.copies(),
        picture.streams(),
    ):
        assert len(table) == 0
    assert picture.idle_gaps()["cause"].dtype == "category"


def test_the_backward_thread_is_part_of_the_loop() -> None:
    def body(machine: Machine) -> None:
        machine.launch("forward", 20)
        name = "autograd::engine::evaluate_function: MmBackward0"
        machine.events.add("cpu_op", name, machine.now, 40, tid=AUTOGRAD)
        machine.host(30)
        machine.launch("backward", 200, thread=AUTOGRAD)
        machine.host(10)
        machine.synchronize()

    picture = looped(body)
    assert (picture.main_thread, picture.autograd_threads) == (MAIN, (AUTOGRAD,))
    assert idle_us(picture, 1) == {"sync": 3 + 7 + 35 - 20}  # the late backward launch is refill as well


def bare(machine: Machine) -> None:
    """A step of a C++ program: no annotation and no operator says what a thread is for; the worker launches more."""
    machine.copy("h2d", "pageable", 20, nbytes=1 << 10)
    for _ in range(4):
        machine.launch("forward", 20)
    machine.host(30)
    for _ in range(8):
        machine.launch("backward", 20, thread=AUTOGRAD)
    machine.host(30)
    machine.launch("update", 20)
    machine.stream_synchronize()


def unmarked(body: Callable[[Machine], None], steps: int = 6) -> Timeline:
    machine = Machine(sync_rows=False)
    for _ in range(steps):
        body(machine)
    return timeline.build(machine.trace())


def test_the_thread_that_waits_is_the_loop_and_the_one_that_takes_over_its_worker() -> None:
    picture = unmarked(bare)
    assert (picture.main_thread, picture.autograd_threads) == (MAIN, (AUTOGRAD,))
    assert (picture.step_source, len(picture.steps())) == ("cycle", 5)


@pytest.mark.parametrize("how", ["in between", "under a wait", "copies only"])
def test_a_thread_beside_the_loop_is_no_worker(how: str) -> None:
    def body(machine: Machine) -> None:
        began = machine.now
        machine.copy("h2d", "pageable", 20, nbytes=1 << 10)
        for _ in range(8):
            machine.launch("forward", 20)
            machine.host(40)
        machine.launch("long", 800)
        machine.synchronize()
        name, api = ("Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync") if how == "copies only" else ("side", "")
        at = {"in between": began + 70, "under a wait": machine.now - 500, "copies only": began + 70}[how]
        apart = {"in between": 45, "under a wait": 6, "copies only": 6}[how]
        for number in range(6):
            start = at + apart * number
            correlation = machine.events.call(api or "cudaLaunchKernel", start, 3, AUTOGRAD)
            machine.events.kernel(correlation, name, start + 10, 2, stream=9) if not api else machine.events.copied(
                correlation, name, start + 10, 2, stream=9
            )

    picture = unmarked(body)
    assert (picture.main_thread, picture.autograd_threads) == (MAIN, ())


# ------------------------------------------------------------------------------------------------- copies and waits


def completed(picture: Timeline) -> list[tuple[str, str, str]]:
    """API and kind of each wait, and the API of the copy that it completes ("" none), of step 1."""
    waits, names = picture.syncs(), picture.calls()["name"].astype(str)
    mine = waits[waits["step"] == 1]
    return [(row.api, row.kind, names[row.copy] if row.copy >= 0 else "") for row in mine.itertuples()]


@pytest.mark.parametrize(
    ("direction", "memory", "between", "expected"),
    [
        ("d2h", "pinned", "", [("cudaStreamSynchronize", "d2h", "cudaMemcpyAsync")]),
        ("h2d", "pinned", "", [("cudaStreamSynchronize", "stream", "cudaMemcpyAsync")]),
        ("d2h", "pageable", "", [("cudaMemcpyAsync", "d2h", ""), ("cudaStreamSynchronize", "d2h", "cudaMemcpyAsync")]),
        ("d2h", "pinned", "record", [("cudaStreamSynchronize", "d2h", "cudaMemcpyAsync")]),
        ("h2d", "pinned", "launch", [("cudaStreamSynchronize", "stream", "")]),
        ("d2h", "pinned", "elsewhere", [("cudaStreamSynchronize", "stream", "")]),
    ],
)
def test_which_copy_a_synchronize_completes(
    direction: str, memory: str, between: str, expected: list[tuple[str, str, str]]
) -> None:
    def body(machine: Machine) -> None:
        machine.copy(direction, memory, 20, nbytes=1 << 10)
        if between == "record":
            machine.record_event()
        if between == "launch":
            machine.launch("gemm", 5)
        machine.stream_synchronize(STREAM + 1 if between == "elsewhere" else STREAM)

    assert completed(looped(body)) == expected


def test_a_synchronize_that_returns_before_the_copy_is_done_completes_another() -> None:
    """Its stream is not known: it can only be that of the kernel."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 100, stream=8)
        machine.copy("h2d", "pinned", 1000, nbytes=1 << 20)
        machine.stream_synchronize(8)
        machine.host(2000)

    assert completed(looped(body, sync_rows=False)) == [("cudaStreamSynchronize", "stream", "")]


def test_a_synchronize_that_the_user_wrote_completes_no_copy_to_the_gpu() -> None:
    """Where the recording tells that it was written; behind a read it still belongs to it."""
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            machine.copy("h2d", "pinned", 20, nbytes=1 << 10)
            machine.stream_synchronize()
            machine.item()
    everywhere = SourceMark(BASE_NS, BASE_NS + int(machine.now * US) * 2, MAIN, "Stream.synchronize", STOP)
    waits = built(machine.events, RankRecording(0, None, marks=(everywhere,), attributed_steps=(2,))).syncs()
    assert list(waits["kind"][:2]) == ["stream", "d2h"]
    assert list(waits["copy"] >= 0) == [False, True] * 3


# ------------------------------------------------------------------------------------------------------ source lines

READ, STOP, LOAD = Location("train.py", 12, "main"), Location("train.py", 11, "main"), Location("train.py", 8, "main")


def recorded(machine: Machine, attributed: dict[int, float], **fields: Any) -> RankRecording:
    """Marks around the calls of steps that began at the given times (see `per_batch`)."""
    marks = [
        SourceMark(BASE_NS + int((began + start) * US), BASE_NS + int((began + end) * US), MAIN, call, location)
        for began in attributed.values()
        for start, end, call, location in (
            (39, 101, "Tensor.to", LOAD),
            (129, 511, "torch.cuda.synchronize", STOP),
            (511, 523, "Tensor.item", READ),
        )
    ]
    return RankRecording(0, None, marks=tuple(marks), attributed_steps=tuple(attributed), **fields)


def test_lines_are_carried_from_the_attributed_step() -> None:
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            per_batch(machine)
    waits = built(machine.events, recorded(machine, {3: 3 * 622})).syncs()
    for step in range(4):
        mine = waits[waits["step"] == step]
        assert list(mine["line"]) == [8, 11, 12]
        assert list(mine["user_call"]) == ["Tensor.to", "torch.cuda.synchronize", "Tensor.item"]
        assert set(mine["location_source"]) == {"mark"} and set(mine["path"]) == {"train.py"}


def two_reads(machine: Machine, extra: bool) -> None:
    machine.launch("gemm", 50)
    machine.item()
    machine.item()
    if extra:
        machine.item()


def test_lines_are_not_guessed_where_the_count_differs() -> None:
    machine = Machine()
    starts = []
    for number in range(3):
        starts.append(machine.now)
        with machine.step(number):
            two_reads(machine, extra=number == 1)
    built_events = machine.events
    reads = [row for row in built_events.rows if row["name"] == "cudaStreamSynchronize" and row["ts"] > starts[2]]
    marks = tuple(
        SourceMark(
            int(BASE_NS + row["ts"] * US - 500),
            int(BASE_NS + (row["ts"] + row["dur"]) * US + 500),
            MAIN,
            "Tensor.item",
            place,
        )
        for row, place in zip(reads, (READ, STOP), strict=True)
    )
    waits = built(built_events, RankRecording(0, None, marks=marks, attributed_steps=(2,))).syncs()
    assert list(waits.loc[waits["step"] == 0, "line"]) == [12, 11]
    assert waits.loc[waits["step"] == 1, "line"].isna().all()


def test_one_possible_line_is_no_guess() -> None:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            two_reads(machine, extra=number == 1)
    mark = SourceMark(BASE_NS, BASE_NS + int(machine.now * US) * 2, MAIN, "Tensor.item", READ)
    waits = built(machine.events, RankRecording(0, None, marks=(mark,), attributed_steps=(2,))).syncs()
    assert set(waits["line"]) == {12}


def test_more_waits_than_the_one_known_line_makes_are_nobodys() -> None:
    """A report every few batches reads once more than the attributed steps did; a long wait still has its samples."""
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            machine.launch("gemm", 50)
            machine.item()
            if number == 1:
                machine.launch("gemm", 4000)
                machine.item()
    *_, long, last = [row for row in machine.events.rows if row["name"] == "cudaStreamSynchronize"]
    began, ended = BASE_NS + last["ts"] * US - 500, BASE_NS + (last["ts"] + last["dur"]) * US + 500
    mark = SourceMark(int(began), int(ended), MAIN, "Tensor.item", READ)
    samples = tuple(StackSample(int(BASE_NS + (long["ts"] + 500 * k) * US), MAIN, STOP) for k in range(1, 6))
    recording = RankRecording(0, None, marks=(mark,), samples=samples, attributed_steps=(2,))
    waits = built(machine.events, recording).syncs()
    assert list(waits.loc[waits["step"] == 0, "line"]) == [12]
    assert [None if pd.isna(line) else line for line in waits.loc[waits["step"] == 1, "line"]] == [None, 11]


def test_samples_name_the_line_and_are_carried_too() -> None:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            per_batch(machine)
    inside = BASE_NS + (622 + 300) * US  # within the synchronize of step 1
    samples = (StackSample(inside, MAIN, STOP), StackSample(inside + US, MAIN, STOP), StackSample(inside, 77, READ))
    waits = built(machine.events, RankRecording(0, None, samples=samples)).syncs()
    device = waits[waits["kind"] == "device"]
    assert set(device["line"]) == {11} and set(device["location_source"]) == {"sample"}
    assert waits.loc[waits["kind"] != "device", "line"].isna().all()


def test_samples_that_agree_with_a_carried_mark_do_not_lose_its_call() -> None:
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            per_batch(machine)
    inside = BASE_NS + (622 + 300) * US  # within the synchronize of step 1
    samples = tuple(StackSample(inside + number * US, MAIN, STOP) for number in range(5))
    waits = built(machine.events, recorded(machine, {3: 3 * 622}, samples=samples)).syncs()
    device = waits[waits["kind"] == "device"]
    assert set(device["line"]) == {11} and set(device["user_call"]) == {"torch.cuda.synchronize"}


def test_frames_name_the_line_of_the_users_function() -> None:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            began = machine.now
            per_batch(machine)
            for name, inner in (
                ("train.py(3): main", 0),
                ("train.py(5): step", 1),
                ("torch/cuda/__init__.py(9): sync", 2),
            ):
                machine.events.frame(name, began + inner, machine.now - began - 2 * inner)
    waits = built(machine.events).syncs()
    assert set(waits["location_source"]) == {"stack"}
    assert set(zip(waits["path"], waits["line"], waits["function"], strict=True)) == {("train.py", 5, "step")}


def test_tables_are_plain_and_ordered() -> None:
    picture = looped(per_batch)
    for table in (picture.steps(), picture.calls(), picture.ops(), picture.syncs(), picture.loader_waits()):
        assert isinstance(table.index, pd.RangeIndex)
        assert table["start_ns"].is_monotonic_increasing
    assert picture.syncs()["stream"].isin([-1, STREAM]).all()


def test_what_is_written_into_a_table_stays_with_the_reader() -> None:
    picture = looped(per_batch)
    for table in (picture.steps, picture.calls, picture.ops, picture.syncs, picture.idle_gaps, picture.loader_waits):
        mine = table()
        mine["mine"] = 0
        mine.loc[0, "start_ns"] = -1
        assert "mine" not in table() and (table()["start_ns"] >= 0).all()
