"""Known answers for what a DataLoader can supply: no Edit goes below it, and more workers raise it by so much.

Loops as in test_known_answers; all times in µs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.builders import Machine
from tests.support.replaying import READY, SYNC, TWO, WAIT, build, more, starved, time_us, timeline_and_stalls
from tracelens.model import Abstention, Edit, Estimate, StepClock, Timeline
from tracelens.replay import bounds, estimate, explanations, trace_builder
from tracelens.replay.calibration import Calibration
from tracelens.replay.edits import apply
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.trace import timeline


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_prefetching_promises_no_more_than_the_workers_deliver(depth: int) -> None:
    """Copy and kernel would be hidden behind the wait for the next batch; but the batches come at their own pace."""
    made = build(starved, calibration=TWO)
    fetched = (Edit("prefetch", (), depth=depth), Edit("interval-sync", (SYNC,), interval=10))
    assert made.loader.period_ns == made.recorded_ns
    assert time_us(made, *fetched) == pytest.approx(made.recorded_ns / 1000, abs=0.1)
    judged = estimate.predict(made, fetched)
    assert isinstance(judged, Estimate)
    assert judged.step_ns == pytest.approx(judged.base_ns, rel=1e-3)
    assert judged.binding == "loader"
    assert judged.low_ns > 0.9 * judged.base_ns
    assert any("set the pace" in text for text in judged.assumptions)


def test_a_loader_that_almost_keeps_up_takes_only_what_it_must() -> None:
    """Steps of 6,000 and a loader that needs 5,000 for a batch: a remedy worth 3,000 brings 1,000."""

    def body(machine: Machine) -> None:
        machine.load_batch(500)
        machine.launch("gemm", 2_000)
        machine.host(2_470)
        machine.synchronize()
        machine.launch("gemm", 3_000)
        machine.synchronize()

    made = build(body, calibration=TWO)
    assert made.loader.period_ns is None
    free = time_us(made, Edit("interval-sync", (SYNC,), interval=1000))
    slow = replace(made, loader=replace(made.loader, period_ns=5_200_000))
    assert free < 5_100
    assert time_us(slow, Edit("interval-sync", (SYNC,), interval=1000)) == pytest.approx(5_200, abs=0.1)


def test_twice_the_workers_deliver_twice_as_often() -> None:
    made = build(starved, calibration=TWO)
    # One worker needs 2 x the step of 9,815 + 5 + 3 per batch; four need a quarter each.
    assert time_us(made, more(4)) == pytest.approx(made.recorded_ns / 2000, abs=1)
    judged = estimate.predict(made, (more(4),))
    assert isinstance(judged, Estimate)
    assert judged.binding == "loader"
    assert judged.speedup == pytest.approx(2, rel=0.01)
    assert any("4 workers, each as fast as now" in text for text in judged.assumptions)


def test_a_starved_loop_is_told_what_twice_the_workers_would_bring() -> None:
    made = build(starved, calibration=TWO)
    (said,) = (one for one in explanations.explain(made) if one.id == "loader_bound")
    assert said.numbers["doubled_ns"] == pytest.approx(made.recorded_ns / 2, rel=1e-3)
    assert "With 4 workers instead of 2, each as fast as now, a step would take 4.91 ms (predicted)." in said.text
    unknown = replace(made, loader=replace(made.loader, workers=None))
    (said,) = (one for one in explanations.explain(unknown) if one.id == "loader_bound")
    assert "predicted" not in said.text


def test_many_workers_leave_the_loop_and_the_pin_thread() -> None:
    made = build(starved, calibration=TWO)
    # The pin thread copies 15 MB at 8 GB/s; the loop itself needs the loader's 2,000 at most, 300, 500 and its calls.
    pinning = 15_000_000 / TWO.pin_thread_bytes_per_us
    own = TWO.loader_work_limit_ns / 1000 + 7 + 300 + 1 + 500 + 3
    assert time_us(made, more(64)) == pytest.approx(own, abs=1)
    quick = replace(made, calibration=replace(made.calibration, loader_work_limit_ns=100_000))
    assert time_us(quick, more(64)) == pytest.approx(pinning, abs=1)


def test_workers_that_deliver_in_bursts_are_counted_by_what_they_deliver_together() -> None:
    """Every other batch is there at once. The mean counts; the least time in the loader is the loop's own work."""
    turn = iter(range(1000))

    def body(machine: Machine) -> None:
        machine.load_batch(READY if next(turn) % 2 else WAIT)
        machine.launch("gemm", 500)
        machine.synchronize()

    made = build(body, calibration=TWO)
    assert made.loader.period_ns == made.recorded_ns == (READY + WAIT) * 500 + 510_000
    assert time_us(made, more(4)) == pytest.approx(made.recorded_ns / 2000, abs=1)
    assert time_us(made, more(64)) == pytest.approx(READY + 510, abs=1)


def test_no_more_workers_than_cores_count() -> None:
    made = build(starved, calibration=replace(TWO, loader_cores=5))
    assert time_us(made, more(64)) == pytest.approx(time_us(made, more(4)), abs=0.1)
    few = build(starved, calibration=replace(TWO, loader_cores=2))
    assert time_us(few, more(64)) == pytest.approx(time_us(few), abs=0.1)


def test_fewer_workers_are_no_remedy() -> None:
    made = build(starved, calibration=TWO)
    assert time_us(made, more(1)) == time_us(made)


def test_workers_that_keep_up_are_not_made_faster_by_more() -> None:
    def body(machine: Machine) -> None:
        machine.load_batch(READY)
        machine.launch("gemm", 5_000)
        machine.synchronize()

    made = build(body, calibration=TWO)
    assert apply(made, (more(8),)).variants == apply(made).variants
    judged = estimate.predict(made, (more(8),))
    assert isinstance(judged, Estimate)
    assert judged.step_ns == judged.base_ns
    assert any("more of them bring nothing" in text for text in judged.assumptions)
    other = estimate.predict(made, (Edit("interval-sync", (SYNC,), interval=10),))
    assert isinstance(other, Estimate)
    assert any("how much faster they could deliver is not known" in text for text in other.assumptions)
    assert not any("workers" in text for text in judged.assumptions if "more of them" not in text)


def test_the_first_workers_take_the_making_off_the_training_thread() -> None:
    """4,000 per batch in the training thread; two workers deliver one per 2,000, and the loop unpacks it in 1,000."""

    def body(machine: Machine) -> None:
        machine.load_batch(4_000)
        machine.launch("gemm", 3_000)
        machine.synchronize()

    made = build(body, calibration=Calibration(loader_workers=0))
    assert time_us(made) == pytest.approx(4_000 + 7 + 3_000 + 3, abs=0.1)
    assert time_us(made, more(2)) == pytest.approx(1_000 + 7 + 3_000 + 3, abs=0.1)
    assert time_us(made, more(1)) == pytest.approx(1_000 + 7 + 3_000 + 3, abs=0.1)
    without_wait = Edit("interval-sync", (SYNC,), interval=1000)
    assert time_us(made, more(1), without_wait) == pytest.approx(4_000, abs=0.1)
    assert bounds.step_bounds(made, (more(1), without_wait)).binding == "loader"


def test_an_unknown_number_of_workers_is_not_multiplied() -> None:
    made = build(starved)
    judged = estimate.predict(made, (more(8),))
    assert isinstance(judged, Abstention)
    assert "how many workers" in judged.missing


def test_the_unprofiled_step_is_the_loaders_period() -> None:
    """The profiler does not slow the workers down: 9,000 per batch unprofiled is what two of them deliver."""
    picture, stalls = timeline_and_stalls(starved)
    from tracelens.replay import trace_builder

    made = trace_builder.build(picture, stalls, StepClock(unprofiled_mean_ns=9_500_000), TWO)
    assert not isinstance(made, Abstention)
    judged = estimate.predict(made, (more(4),))
    assert isinstance(judged, Estimate)
    assert judged.step_ns == pytest.approx(4_750_000, rel=0.01)


def test_cores_and_workers_are_read_from_the_run_and_shared_by_its_ranks() -> None:
    loaders = [{"loaders": [{"num_workers": 4}]}]
    one = Calibration.from_run({"ranks": loaders, "environment": {"cpu_count": 16}, "world_size": 1})
    four = Calibration.from_run({"ranks": loaders, "environment": {"cpu_count": 16}, "world_size": 4})
    assert (one.loader_workers, one.loader_cores, four.loader_cores) == (4, 16, 4)
    for broken in (True, "16", 0, -3, None, 2.5):
        made = Calibration.from_run({"ranks": [], "environment": {"cpu_count": broken}, "world_size": broken})
        assert made.loader_cores is None


# -------------------------------------------------------------- what workers need, where the loop never waits for them


def pageable(machine: Machine) -> None:
    """A batch is there at once; its copy blocks for 3,000, then 2,000 on the GPU. Pinned: shorter."""
    machine.load_batch(500)
    machine.copy("h2d", "pageable", 3_000, nbytes=25_000_000)
    machine.launch("gemm", 2_000)
    machine.synchronize()


PINNED = (Edit("async-copy"), Edit("interval-sync", (SYNC,), interval=10))


def supplied(busy_us: float, workers: int = 4, cores: int | None = None) -> Calibration:
    """As `tracelens profile` notes it: 100 batches for which all workers together took so much CPU time."""
    told = {"num_workers": workers, "supply": {"seconds": 1.0, "batches": 100, "worker_seconds": busy_us / 1e4}}
    found = Calibration.from_run({"loaders": [told], "environment": {"cpu_count": cores}})
    return replace(found, pin_thread_copy_factor=1.0)  # the pin thread is not the limit here


def test_workers_that_are_busy_all_the_time_are_the_limit_of_every_remedy() -> None:
    """Four workers, 20,000 of CPU per batch: one every 5,000 at best, however little the loop itself needs."""
    free, bound = build(pageable, calibration=supplied(0)), build(pageable, calibration=supplied(20_000))
    assert time_us(free, *PINNED) < 4_900, "or the test tests nothing"
    assert time_us(bound, *PINNED) == pytest.approx(5_000)
    judged = estimate.predict(bound, PINNED)
    assert isinstance(judged, Estimate)
    assert judged.binding == "loader"
    assert "4 workers deliver a step's batches every 5.00 ms at best, by the CPU time they took" in judged.assumptions


def test_a_loop_as_it_is_did_get_its_batches() -> None:
    """The workers' time is measured with an error; it never makes the recorded loop slower than it was."""
    made = build(pageable, calibration=supplied(80_000))
    assert time_us(made) == pytest.approx(made.base_ns / 1000)
    judged = estimate.predict(made, PINNED)
    assert isinstance(judged, Estimate)
    assert judged.step_ns == pytest.approx(judged.base_ns, rel=1e-3)
    (said,) = (one for one in explanations.explain(made) if one.id == "loader_bound")
    assert "any time saved elsewhere is spent waiting" in said.text


def test_workers_without_a_core_of_their_own_share_what_there_is() -> None:
    crowded = build(pageable, calibration=supplied(10_000, workers=4, cores=2))
    assert time_us(crowded, *PINNED) == pytest.approx(5_000)


def test_more_workers_beside_a_remedy_lift_the_limit() -> None:
    made = build(pageable, calibration=supplied(20_000))
    assert time_us(made, *PINNED, more(8)) == pytest.approx(time_us(build(pageable, calibration=supplied(0)), *PINNED))
    assert time_us(made, more(8)) == pytest.approx(time_us(made)), "alone they bring nothing"


@pytest.mark.parametrize(
    "told", [None, {}, {"batches": 0, "worker_seconds": 1.0}, {"batches": 9, "worker_seconds": None}]
)
def test_what_was_not_measured_sets_no_limit(told: object) -> None:
    found = Calibration.from_run({"loaders": [{"num_workers": 4, "supply": told}]})
    assert found.loader_batch_ns == 0


def without_marks(waited_us: float, steps: int = 6) -> Timeline:
    """A loop that is inside the loader for so long in each step of 1,000 µs of kernels, and that left no mark of it."""
    machine = Machine()
    for number in range(steps):
        with machine.step(number):
            machine.host(waited_us)
            for _ in range(10):
                machine.launch("gemm", 100)
            machine.item()
    return timeline.build(machine.trace())


def test_a_loader_that_may_be_behind_a_long_silence_is_no_host_work() -> None:
    """All that is saved elsewhere may be spent on waiting for the next batch: nothing is promised."""
    picture = without_marks(400)
    found = trace_builder.build(picture, loader_known=False)
    assert isinstance(found, Abstention)
    assert found.missing.startswith("the host makes no call for 0.40 ms of a step: ")
    assert isinstance(trace_builder.build(picture), ReplayTrace), "a loop that surely has no loader"


def test_a_silence_that_limits_nothing_hides_no_loader() -> None:
    assert isinstance(trace_builder.build(without_marks(60), loader_known=False), ReplayTrace)
