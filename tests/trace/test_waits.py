"""What each wait of the host waits for, and for how long."""

from __future__ import annotations

import pytest

from tests.support.builders import BASE_NS, MAIN, STREAM, Events, Machine
from tests.support.timelines import STOP, US, built, looped, per_batch
from tracelens.model import RankRecording, SourceMark, Timeline
from tracelens.trace import timeline


def test_the_waits_of_a_known_loop() -> None:
    waits = looped(per_batch).syncs()
    mine = waits[waits["step"] == 1]
    assert list(mine["api"]) == ["cudaMemcpyAsync", "cudaDeviceSynchronize", "cudaStreamSynchronize"]
    assert list(mine["kind"]) == ["h2d", "device", "d2h"]
    assert list(mine["wait_ns"]) == [55 * US, 378 * US, 3 * US]  # 60 less 5 to issue; until the work is done
    assert not mine["window_edge"].any()
    assert list(mine["location_source"]) == ["none"] * 3 and mine["path"].isna().all()


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
