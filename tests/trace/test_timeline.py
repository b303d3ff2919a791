"""The tables of a Timeline whose every number can be worked out in the head (times in us; tables hold ns)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.support.builders import AUTOGRAD, MAIN, STREAM, Events, Machine
from tests.support.timelines import US, built, idle_us, looped, per_batch
from tracelens.model import Timeline
from tracelens.trace import timeline

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


def test_work_belongs_to_the_latest_call_of_its_number_where_processes_count_alike() -> None:
    """Two processes, merged into one file, number their calls from 1; the second of the second is a synchronize."""
    events = Events()
    for at, pid, api, correlation in (
        (10, 1, "cudaLaunchKernel", 1), (30, 1, "cudaLaunchKernel", 2), (50, 2, "cudaLaunchKernel", 1),
        (70, 2, "cudaDeviceSynchronize", 2),
    ):  # fmt: skip
        events.add("cuda_runtime", api, at, 5, pid=pid, args={"correlation": correlation})
    for correlation, at in ((1, 20), (2, 40), (1, 60), (2, 80)):
        events.kernel(correlation, "gemm", at, 5)
    picture = timeline.build(events.trace())
    assert picture.ops()["call"].tolist() == [0, 1, 2, 1]
    assert picture.calls()["ops"].tolist() == [1, 2, 1, 0]
    assert any("calls of 2 processes" in note for note in picture.notes)


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


@pytest.mark.parametrize(("steps", "lost", "complete"), [(1, 1, 1), (1, 2, 0), (3, 2, 3)])
def test_a_launch_that_is_gone_with_its_work_shows_only_beside_other_steps(
    steps: int, lost: int, complete: int
) -> None:
    """One lost event is a launch or its work, which the other one tells; of two, both may be gone."""
    machine = Machine()
    for number in range(steps):
        with machine.step(number), machine.operation("aten::mm"):
            machine.launch("gemm", 50)
    trace = machine.trace()
    damaged = replace(trace, completeness=replace(trace.completeness, lost_events=lost))
    assert timeline.build(damaged).coverage.complete_steps == complete
