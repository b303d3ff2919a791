"""Replays of loops whose step time can be worked out in the head: one test per rule. All times in µs.

The builders' machine issues a call in 5, starts a kernel 7 after its launch call began, leaves 1 between queued kernels
and returns from a wait 3 after the work.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from tests.support.builders import Machine
from tests.support.replaying import COPY, READ, SYNC, build, synchronized, time_us, timeline_and_stalls
from tracelens.model import Abstention, Edit, Stall, StepClock
from tracelens.replay import bounds, edits, estimate, explanations, exposed_cost, step_timeline, trace_builder
from tracelens.replay.calibration import Calibration
from tracelens.replay.replay_trace import ReplayTrace, all_host_ops
from tracelens.trace import timeline

QUICK_THREAD = Calibration(loader_workers=4, pin_thread_bytes_per_us=50_000, pin_thread_copy_factor=0.01)


def test_base_meets_the_recorded_step() -> None:
    made = build(synchronized)
    assert made.recorded_ns == 250_000
    assert time_us(made) == pytest.approx(250, abs=0.1)
    assert abs(made.errors.recorded) < 1e-3


def test_without_the_wait_the_busier_of_host_and_gpu_sets_the_pace() -> None:
    made = build(synchronized)
    # GPU: 200 + 1 between kernels. Host: launch 5 + 50 + 40 + what is left of the synchronize call.
    assert exposed_cost.per_stall(made)[SYNC] == pytest.approx(250_000 - 201_000, abs=200)


def test_a_wait_on_a_busy_gpu_with_queued_work_costs_nothing() -> None:
    """The host waits for an event behind 10 of work while 400 more are queued: long waits, no cost."""

    def body(machine: Machine) -> None:
        machine.launch("short", 10)
        done = machine.record_event()
        machine.launch("long", 400)
        machine.event_synchronize(done)
        machine.host(20)

    made = build(body)
    assert sum(place.wait_ns for place in made.stalls.values()) > 300_000
    assert exposed_cost.together(made) == pytest.approx(0, abs=500)
    assert time_us(made) == pytest.approx(412, abs=1)


def test_two_waits_that_cost_nothing_alone_cost_much_together() -> None:
    """A synchronize and a read behind it: each alone is replaced by the other."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 200)
        machine.synchronize()
        machine.item()
        machine.host(100)

    made = build(body)
    alone = exposed_cost.per_stall(made)
    assert alone[SYNC] < 15_000
    assert alone[READ] < 25_000
    assert (exposed_cost.together(made) or 0) > 90_000


def test_waits_that_absorb_each_other_are_named_as_a_set() -> None:
    """The host drains the GPU twice in a row: the second wait has nothing left to wait for while the first is there."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 5_000)
        machine.host(300)
        machine.synchronize()
        machine.stream_synchronize()
        machine.host(300)

    made = build(body)
    assert max(exposed_cost.per_stall(made).values()) < 0.01 * made.base_ns
    assert {sentence.id for sentence in explanations.explain(made)} >= {"absorbed"}


def test_interval_sync_waits_in_one_step_of_n() -> None:
    made = build(synchronized)
    every_five = time_us(made, Edit("interval-sync", (SYNC,), interval=5))
    # Four steps at the GPU's 201; the fifth drains: back 3 after its kernel, 40 of Python, 7 to the next kernel.
    assert every_five == pytest.approx((5 * 201 + 3 + 40 + 7 - 1) / 5, abs=0.5)


def test_event_sync_alone_never_waits_and_with_an_interval_waits_then() -> None:
    made = build(synchronized)
    assert time_us(made, Edit("event-sync", (SYNC,))) == pytest.approx(201, abs=0.5)
    both = time_us(made, Edit("event-sync", (SYNC,)), Edit("interval-sync", (SYNC,), interval=5))
    assert both == pytest.approx((5 * 201 + 3 + 40 + 7 - 1) / 5, abs=0.5)


def reading(machine: Machine) -> None:
    """Launch, read the value: kernel 7 to 207, copy 208 to 209, back at 212, then 40 of Python: 252."""
    machine.launch("gemm", 200)
    machine.item()
    machine.host(40)


def test_deferred_reads_stack_and_read_once_per_interval() -> None:
    made = build(reading)
    assert time_us(made) == pytest.approx(252, abs=0.1)
    deferred = time_us(made, Edit("defer-read", (READ,), interval=4))
    # Per interval: four kernels, a stack of 3 and the copy, each 1 apart; then 3 + 40 until the next launch's 7.
    assert deferred == pytest.approx((4 * 201 + 4 + 2 + 3 + 40 + 7 - 1) / 4, abs=1)


def test_a_read_at_once_copies_every_time_but_never_waits() -> None:
    made = build(reading)
    assert time_us(made, Edit("defer-read", (READ,), interval=1)) == pytest.approx(203, abs=1)


def copying(machine: Machine) -> None:
    """10 MB from pageable memory, 700 with the GPU idle, then a kernel of 500 and a read."""
    machine.load_batch(50)
    machine.copy("h2d", "pageable", 700, nbytes=10_000_000)
    machine.stream_synchronize()
    machine.launch("gemm", 500)
    machine.item()


def test_an_asynchronous_copy_runs_at_pinned_speed_and_is_not_waited_for() -> None:
    made = build(copying, calibration=QUICK_THREAD)
    pinned = made.calibration.pinned_duration_ns(10_000_000) / 1000
    assert pinned == pytest.approx(201)
    after = time_us(made, Edit("async-copy", (COPY,)))
    # The read still waits for copy, kernel and value each step; the host part before the copy is loader and calls.
    assert 500 + 1 + pinned + 1 < after < 500 + pinned + 120
    assert after < time_us(made) - 450


def test_a_pin_thread_that_is_slower_than_the_step_sets_the_pace() -> None:
    slow = Calibration(loader_workers=4, pin_thread_bytes_per_us=2_000)
    made = build(copying, calibration=slow)
    # 10 MB at 2 GB/s, and the loader's 50 that the thread takes over.
    assert time_us(made, Edit("async-copy", (COPY,))) == pytest.approx(5_050, abs=1)
    assert bounds.step_bounds(made, (Edit("async-copy", (COPY,)),)).binding == "loader"


def test_without_workers_the_main_thread_pins() -> None:
    with_thread = build(copying, calibration=QUICK_THREAD)
    alone = build(copying, calibration=Calibration(loader_workers=0))
    change = Edit("async-copy", (COPY,))
    cost = alone.calibration.pin_main_tensor_ns / 1000 + 10_000_000 / alone.calibration.pin_main_bytes_per_us
    assert time_us(alone, change) - time_us(with_thread, change) >= cost * 0.9


def test_prefetch_hides_the_copy_behind_the_previous_step() -> None:
    def body(machine: Machine) -> None:
        machine.load_batch(50)
        machine.copy("h2d", "pageable", 700, nbytes=10_000_000)
        machine.stream_synchronize()
        machine.launch("gemm", 500)

    made = build(body, calibration=QUICK_THREAD)
    copied = time_us(made, Edit("async-copy", (COPY,)))
    fetched = time_us(made, Edit("async-copy", (COPY,)), Edit("prefetch", (COPY,), depth=1))
    assert copied == pytest.approx(500 + 201 + 2, abs=1)
    assert fetched == pytest.approx(501, abs=1)


def test_a_pageable_copy_of_a_small_batch_does_not_wait_for_earlier_work() -> None:
    """Staged ahead of the stream: the call takes its own time, the synchronize behind it waits for the kernel."""

    def body(machine: Machine, nbytes: int) -> None:
        machine.copy("h2d", "pageable", 100, nbytes=nbytes)
        machine.launch("gemm", 900)
        machine.synchronize()
        machine.host(10)

    times = {}
    for nbytes in (1 << 20, 32 << 20):
        made = build(partial(body, nbytes=nbytes))
        times[nbytes] = time_us(made, Edit("interval-sync", (SYNC,), interval=1000))
    # A large batch is copied by the driver only when the kernel before it is done.
    assert times[32 << 20] > times[1 << 20] + 60


def test_the_queue_limit_holds_the_host_back() -> None:
    """Ten short launches per step, never a wait: the host is bound to the GPU by the queue alone."""

    def body(machine: Machine) -> None:
        for _ in range(10):
            machine.launch("gemm", 100)

    made = build(body)
    # The recorder's host never blocks, so the trace shows steps of 50 while the GPU needs 1,010.
    spans = step_timeline.draw_step(made, (), None).bars
    assert time_us(made) == pytest.approx(1010, abs=1)
    assert {span.lane for span in spans} == {"host", "stream 7"}


def seeds_drawing(machine: Machine) -> None:
    """four_stream_pipeline.md, "after": transfer, forward, backward each on its stream, each after the one before,
    and the next transfer after the backward: nothing overlaps."""
    machine.copy("h2d", "pinned", 200, nbytes=10_000_000, stream=20)
    machine.stream_synchronize(20)
    machine.launch("forward", 300, stream=21)
    machine.stream_synchronize(21)
    machine.launch("backward", 500, stream=22)
    machine.stream_synchronize(22)


def test_the_seeds_pipeline_in_which_nothing_overlaps_takes_the_sum_of_its_parts() -> None:
    made = build(seeds_drawing)
    assert time_us(made) == pytest.approx(200 + 300 + 500 + 3 * (7 + 3), abs=0.5)

    def one_stream(machine: Machine) -> None:
        machine.copy("h2d", "pinned", 200, nbytes=10_000_000)
        machine.launch("forward", 300)
        machine.launch("backward", 500)
        machine.synchronize()

    plain = build(one_stream)
    # On one stream the same work is even quicker: two launches and two returns are hidden. Four streams gain nothing.
    assert time_us(plain) == pytest.approx(7 + 200 + 1 + 300 + 1 + 500 + 3, abs=0.5)
    busy = [span for span in step_timeline.draw_step(made, (), None).bars if span.lane != "host"]
    ordered = sorted(busy, key=lambda span: span.start_ns)
    assert all(first.end_ns <= second.start_ns for first, second in pairwise(ordered))


def test_the_profilers_cost_is_fitted_to_the_unprofiled_step() -> None:
    def body(machine: Machine) -> None:
        for _ in range(20):
            machine.host(40)
            machine.launch("gemm", 5)
        machine.synchronize()

    slow = build(body)
    made = build(body, clock=StepClock(unprofiled_mean_ns=round(0.9 * slow.recorded_ns)))
    assert made.overhead.row_ns > 1_000
    assert time_us(made) == pytest.approx(0.9 * slow.recorded_ns / 1000, rel=0.012)
    assert made.base_ns == round(0.9 * slow.recorded_ns)
    judged = estimate.predict(made, ())
    assert not isinstance(judged, Abstention)
    assert judged.basis == "unprofiled"
    assert judged.step_ns == judged.base_ns


def test_a_gpu_bound_loop_does_not_tell_the_profilers_cost() -> None:
    def body(machine: Machine) -> None:
        machine.launch("gemm", 5_000)
        machine.synchronize()

    recorded = build(body).recorded_ns
    made = build(body, clock=StepClock(unprofiled_mean_ns=recorded))
    assert not made.overhead.fitted
    assert made.overhead.low_ns < made.overhead.row_ns < made.overhead.high_ns


def test_an_unprofiled_step_that_the_recording_cannot_explain_is_refused() -> None:
    recorded = build(synchronized).recorded_ns
    made = trace_builder.build(*timeline_and_stalls(synchronized), clock=StepClock(unprofiled_mean_ns=2 * recorded))
    assert isinstance(made, Abstention)
    assert "unprofiled" in made.missing


def test_too_few_steps_are_refused() -> None:
    made = trace_builder.build(*timeline_and_stalls(synchronized, steps=2))
    assert isinstance(made, Abstention)
    assert "steps" in made.missing


def test_a_loop_without_gpu_work_is_refused() -> None:
    machine = Machine()
    for number in range(5):
        with machine.step(number):
            machine.host(100)
    made = trace_builder.build(timeline.build(machine.trace()))
    assert isinstance(made, Abstention)
    assert "GPU" in made.missing


def test_estimates_have_a_range_around_the_middle_and_name_what_binds() -> None:
    made = build(synchronized)
    judged = estimate.predict(made, (Edit("interval-sync", (SYNC,), interval=10),))
    assert not isinstance(judged, Abstention)
    assert judged.low_ns < judged.step_ns < judged.high_ns
    assert judged.binding == "stream"
    assert judged.speedup == pytest.approx(250 / 205.9, rel=0.01)
    assert judged.basis == "profiled"
    assert any("profiler" in text for text in judged.assumptions)


def test_a_host_bound_loop_is_told_that_waits_do_not_matter() -> None:
    def body(machine: Machine) -> None:
        for _ in range(20):
            machine.launch("gemm", 5)
            machine.host(50)
        machine.synchronize()

    said = {sentence.id: sentence for sentence in explanations.explain(build(body))}
    assert {"host_bound", "no_room"} <= set(said)
    assert said["host_bound"].numbers["host_ns"] > 9 * said["host_bound"].numbers["stream_ns"]


def test_a_gpu_bound_loop_is_told_so() -> None:
    def body(machine: Machine) -> None:
        machine.launch("gemm", 5_000)
        machine.launch("gemm", 5_000)
        machine.synchronize()

    assert "gpu_bound" in {sentence.id for sentence in explanations.explain(build(body))}


def test_a_loader_that_is_too_slow_takes_every_gain_away() -> None:
    def body(machine: Machine) -> None:
        machine.load_batch(9_000)
        machine.launch("gemm", 500)
        machine.synchronize()

    made = build(body, calibration=Calibration(loader_workers=2))
    assert made.loader.period_ns == made.recorded_ns
    assert time_us(made, Edit("interval-sync", (SYNC,), interval=10)) == pytest.approx(time_us(made), rel=1e-3)
    assert "loader_bound" in {sentence.id for sentence in explanations.explain(made)}


def test_the_autograd_hand_off_is_host_time() -> None:
    """The worker's launches follow the main thread's; the time in between belongs to the step."""

    def body(machine: Machine) -> None:
        machine.launch("forward", 10)
        machine.host(120)
        machine.launch("backward", 10, thread=101)
        machine.host(90)
        machine.launch("optimizer", 10)
        machine.synchronize()

    made = build(body)
    assert time_us(made) == pytest.approx(5 + 120 + 5 + 90 + 7 + 10 + 3, abs=0.5)


def test_lanes_show_one_step_on_one_scale() -> None:
    made = build(synchronized)
    edit = Edit("interval-sync", (SYNC,), interval=10)
    before, after = (step_timeline.draw_step(made, edits, None).bars for edits in ((), (edit,)))
    assert max(span.end_ns for span in before) <= 250_100
    kernel = next(span for span in before if span.lane == "stream 7")
    assert (kernel.name, kernel.end_ns - kernel.start_ns) == ("gemm", 200_000)
    assert all(0 <= span.start_ns < span.end_ns for span in (*before, *after))


def test_calibration_of_a_run_overrides_the_defaults() -> None:
    meta = {"calibration": {"pinned_bytes_per_us": 25_000, "queue_limit": "many", "unknown": 3}}
    meta |= {"ranks": [{"loaders": [{"num_workers": 4}]}]}  # type: ignore[dict-item]
    made = Calibration.from_run(meta)
    assert made.pinned_bytes_per_us == 25_000
    assert made.queue_limit == Calibration().queue_limit
    assert made.loader_workers == 4


def test_what_no_edit_touches_is_kept_whole() -> None:
    made = build(synchronized)
    program = edits.apply(made)
    assert [list(all_host_ops(step)) for step in program.variants] == [list(all_host_ops(step)) for step in made.steps]


@pytest.mark.parametrize("resolved", [True, False])
def test_a_stream_waits_for_the_event_of_another(resolved: bool) -> None:
    """Copy of 300 on stream 20, then the kernel on stream 7 behind its event; on current CUDA the trace does not say
    which stream the event was recorded on, but with two busy streams it can only be the other one."""

    def body(machine: Machine) -> None:
        machine.copy("h2d", "pinned", 300, nbytes=15_000_000, stream=20)
        record = machine.events.call("cudaEventRecordWithFlags", machine.now, 5)
        machine.host(5)
        wait = machine.events.call("cudaStreamWaitEvent", machine.now, 5)
        named = {"wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": record} if resolved else {}
        unnamed = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1}
        fields = {**unnamed, **named, "wait_on_cuda_event_id": 38}
        machine.events.sync_row(wait, "Stream Wait Event", machine.now, 5, stream=7, **fields)
        machine.host(5)
        machine.stream_end[7] = max(machine.stream_end.get(7, 0.0), machine.stream_end[20])
        machine.launch("gemm", 200)
        machine.synchronize()

    made = build(body)
    assert made.unresolved_waits == 0
    assert time_us(made) == pytest.approx(7 + 300 + 1 + 200 + 3, abs=1)
    # Without the wait at the end the next copy runs under this kernel: the copy engine sets the pace.
    assert time_us(made, Edit("interval-sync", (SYNC,), interval=1000)) == pytest.approx(301, abs=1)


def test_limits_count_every_interval_by_its_own_length() -> None:
    """A value read every 3 steps and one every 2: the copies of six steps are two and three, 1 each."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 200)
        machine.item()
        machine.copy("d2h", "pageable", 1, nbytes=4)
        machine.host(40)

    picture, _ = timeline_and_stalls(body)
    waits = picture.syncs()
    copies = waits["api"] == "cudaMemcpyAsync"
    found = {"a": waits[~copies].index, "b": waits[copies].index}
    stalls = [Stall(name, "x", "d2h", 1, 0, 0, None, "unknown", None, tuple(rows)) for name, rows in found.items()]
    made = trace_builder.build(picture, tuple(stalls))
    assert isinstance(made, ReplayTrace)
    every = tuple(Edit("defer-read", (name,), interval=interval) for name, interval in (("a", 3), ("b", 2)))
    assert bounds.step_bounds(made, every).copy_ns == pytest.approx(1_000 / 3 + 1_000 / 2, abs=2)
