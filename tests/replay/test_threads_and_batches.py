"""Known answers for the rules about other threads, several batches per step, the host's pace, and inferred events.

Loops as in test_known_answers; all times in µs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.builders import Machine
from tests.support.replaying import COPY, READ, SYNC, build, time_us, timeline_and_stalls
from tracelens.model import Abstention, Edit, Estimate, StepClock
from tracelens.replay import bounds, estimate, explanations, preconditions, trace_builder
from tracelens.replay.calibration import Calibration
from tracelens.replay.replay_trace import editable_host_ops

PIN = Edit("async-copy", (COPY,))
UNPACK, GET = 500, 100
EAGER = Calibration(
    loader_workers=4, pin_thread_bytes_per_us=50_000, pin_thread_copy_factor=0.01, pin_thread_contention=1.0
)
"""A pin thread that copies at once, and whose Python work all competes with the training thread's."""


def never_waiting(machine: Machine) -> None:
    machine.load_batch(UNPACK)
    machine.copy("h2d", "pageable", 40, nbytes=100_000)
    machine.launch("gemm", 50)
    machine.host(2_000)


def waiting(machine: Machine) -> None:
    never_waiting(machine)
    machine.launch("gemm", 900)
    machine.item()


def test_a_busy_training_thread_pays_for_what_the_pin_thread_does_in_python() -> None:
    """The loader's 500 become 100, and the 400 that the pin thread now spends come back: only the copy is saved."""
    made = build(never_waiting, calibration=EAGER)
    free = build(never_waiting, calibration=replace(EAGER, pin_thread_contention=0.0))
    assert time_us(free) - time_us(free, PIN) == pytest.approx(UNPACK - GET + 40, abs=10)
    assert time_us(made) - time_us(made, PIN) == pytest.approx(40, abs=10)


def test_a_training_thread_that_waits_for_the_gpu_pays_nothing() -> None:
    """900 of waiting per step hold 400 of another thread's Python."""
    made = build(waiting, calibration=EAGER)
    free = build(waiting, calibration=replace(EAGER, pin_thread_contention=0.0))
    assert time_us(made, PIN) == pytest.approx(time_us(free, PIN), abs=1)
    # Once the read is deferred nothing is waited for, and the other thread takes its time from the loop.
    deferred = Edit("defer-read", (READ,), interval=1000)
    lost = time_us(made, PIN, deferred) - time_us(free, PIN, deferred)
    assert lost == pytest.approx(UNPACK - GET, abs=40)


def test_background_work_is_no_limit_of_the_host() -> None:
    made = build(waiting, calibration=EAGER)
    free = build(waiting, calibration=replace(EAGER, pin_thread_contention=0.0))
    assert bounds.step_bounds(made, (PIN,)).host_ns == bounds.step_bounds(free, (PIN,)).host_ns


def test_a_pin_thread_works_for_every_batch_of_a_step() -> None:
    """Two batches per step, each copied by the loop in 700: the pin thread needs twice 700 and the loader's 50."""

    def body(machine: Machine) -> None:
        for _ in range(2):
            machine.load_batch(50)
            machine.copy("h2d", "pageable", 700, nbytes=10_000_000)
            machine.launch("gemm", 100)

    costs = Calibration(loader_workers=4, pin_thread_copy_factor=1.0, pin_thread_bytes_per_us=50_000)
    made = build(body, calibration=costs)
    staged = [op.issue_ns for step in made.steps for op in editable_host_ops(step) if op.kind == "staged"]
    needed = sum(staged) / len(made.steps) / 1000 + 2 * 50
    assert needed > 2 * 700
    assert time_us(made, PIN) == pytest.approx(needed, abs=1)
    assert bounds.step_bounds(made, (PIN,)).loader_ns == pytest.approx(needed * 1000, rel=0.01)


def test_a_host_that_worked_slower_while_it_was_recorded_is_scaled_back() -> None:
    """No cost per row explains a step of 3,000 that takes 2,400 unprofiled with three rows: 7 each at most, and the
    pace does the rest, 2,979 for 2,400."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 100)
        machine.host(2_890)
        machine.synchronize()

    picture, stalls = timeline_and_stalls(body)
    recorded = int((picture.steps()["end_ns"] - picture.steps()["start_ns"]).iloc[2])
    unprofiled = recorded * 4 // 5
    made = trace_builder.build(picture, stalls, StepClock((unprofiled,) * 30, unprofiled))
    assert not isinstance(made, Abstention)
    assert made.errors.anchor == pytest.approx(0, abs=0.01)
    assert any("host worked 24% slower" in note for note in made.notes)
    judged = estimate.predict(made, (Edit("interval-sync", (SYNC,), interval=10),))
    assert isinstance(judged, Estimate)
    assert judged.step_ns == pytest.approx(unprofiled, rel=0.02)


def test_an_event_that_the_trace_does_not_tie_is_inferred_from_what_followed_it() -> None:
    """Three busy streams. The trace names neither the record of 21's wait nor its stream; its kernel began as the
    kernel on 20 was done, which was launched, and recorded, just before."""

    def body(machine: Machine) -> None:
        machine.launch("other", 100, stream=22)
        machine.launch("producer", 400, stream=20)
        machine.events.call("cudaEventRecordWithFlags", machine.now, 5)
        machine.host(5)
        wait = machine.events.call("cudaStreamWaitEvent", machine.now, 5)
        machine.events.sync_row(
            wait,
            "Stream Wait Event",
            machine.now,
            5,
            stream=21,
            wait_on_stream=-1,
            wait_on_cuda_event_record_corr_id=-1,
            wait_on_cuda_event_id=7,
        )
        machine.host(5)
        machine.stream_end[21] = max(machine.stream_end.get(21, 0.0), machine.stream_end[20])
        machine.launch("consumer", 300, stream=21)
        machine.synchronize()

    made = build(body)
    assert made.unresolved_waits == 0
    # other's launch 5, then the producer's latency 7 and its 400, a gap, the consumer's 300 and the return.
    assert time_us(made) == pytest.approx(5 + 7 + 400 + 1 + 300 + 3, abs=1)
    assert isinstance(estimate.predict(made, (Edit("interval-sync", (SYNC,), interval=10),)), Estimate)


def test_a_wait_of_a_stream_that_runs_nothing_needs_no_record() -> None:
    def body(machine: Machine) -> None:
        machine.launch("one", 100, stream=20)
        machine.launch("two", 100, stream=21)
        wait = machine.events.call("cudaStreamWaitEvent", machine.now, 5)
        unnamed = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1, "wait_on_cuda_event_id": 7}
        machine.events.sync_row(wait, "Stream Wait Event", machine.now, 5, stream=33, **unnamed)
        machine.host(5)
        machine.synchronize()

    assert build(body).unresolved_waits == 0


def test_a_refusal_names_the_work_from_before_the_window() -> None:
    """Half of the GPU work has no call: it was launched before the recording began."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 500)
        machine.host(200)

    picture, _ = timeline_and_stalls(body)
    ops = picture.tables.ops
    before = replace(
        picture.tables, ops=ops.with_columns(call=np.where(np.arange(len(ops)) >= len(ops) // 2, ops["call"], -1))
    )
    refused = preconditions.unexplained(0.5, replace(picture, tables=before), build(body))
    assert "50 % of the recorded GPU time is work from before the recording began" in refused.missing
    assert "off by +50 %:" in refused.missing
    assert "competes" not in refused.missing


def test_measured_constants_replace_the_defaults_and_nothing_else_does() -> None:
    given = {"queue_limit": 512, "pinned_bytes_per_us": 43_210, "copy_issue_ns": 0, "launch_issue_ns": float("inf")}
    made = Calibration.from_run({"calibration": {**given, "sync_issue_ns": True, "unknown": 3, "event_query_ns": "7"}})
    assert made == replace(Calibration(), queue_limit=512, pinned_bytes_per_us=43_210.0)


def test_a_host_busy_with_batches_is_not_told_that_nothing_can_be_gained() -> None:
    """The GPU needs 50 of 2,600 and no wait matters, but unpacking (500) and copying (40, and its call) would go."""
    made = build(never_waiting, calibration=EAGER)
    said = {one.id: one.text for one in explanations.explain(made)}
    assert "no_room" not in said
    assert "0.55 ms of it are copying and unpacking batches" in said["busy_with_batches"]
    alone = build(lambda machine: (machine.launch("gemm", 50), machine.host(2_000)), calibration=EAGER)
    assert "no_room" in {one.id for one in explanations.explain(alone)}
