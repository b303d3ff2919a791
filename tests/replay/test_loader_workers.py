"""More workers: how often they deliver then, bounded by cores, by the pin thread and by what the loop does itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.builders import Machine
from tests.support.replaying import SYNC, TWO, build, more, starved, synchronized, time_us
from tracelens.model import Edit
from tracelens.replay import worker_count
from tracelens.replay.calibration import Calibration
from tracelens.replay.loader_workers import least_step_ns, with_more_workers, workers_with_a_core
from tracelens.replay.replay_trace import HostOp, LoaderPace, ProfilerOverhead, ReplayTrace

AT_FIVE = ProfilerOverhead(5_000.0, 5_000.0, 5_000.0, fitted=True)


def paced(workers: int | None = 2, period_ns: int | None = 9_000_000, **calibration: int) -> ReplayTrace:
    """One batch per step, for which the loop waits 9 ms; two workers deliver one every 9 ms."""
    made = build(starved, calibration=replace(TWO, pin_thread_bytes_per_us=15_000_000, **calibration))
    return replace(made, loader=LoaderPace(workers, period_ns))


# ---------------------------------------------------------------------------------------------------- more workers


@pytest.mark.parametrize(("workers", "period_us"), [(4, 4_500), (6, 3_000), (9, 2_000)])
def test_more_workers_share_the_time_of_a_batch(workers: int, period_us: int) -> None:
    """Two that deliver every 9 ms need 18 ms each."""
    after = with_more_workers(paced(unpack_ns=0, loader_work_limit_ns=0), (more(workers),))
    assert after.loader == LoaderPace(workers, period_us * 1_000)


def test_cores_bound_how_many_workers_count() -> None:
    """Four cores, one of them the training thread's: three workers at most, so 6 ms."""
    trace = paced(unpack_ns=0, loader_work_limit_ns=0, loader_cores=4)
    assert with_more_workers(trace, (more(16),)).loader == LoaderPace(16, 6_000_000)


def test_the_pin_thread_copies_every_batch_itself() -> None:
    """15 MB at 3,000 bytes per µs are 5 ms, however many workers there are."""
    trace = replace(paced(), calibration=replace(TWO, pin_thread_bytes_per_us=3_000, loader_work_limit_ns=0))
    assert with_more_workers(trace, (more(64),)).loader.period_ns == 5_000_000


def test_what_was_reached_already_stays_so() -> None:
    """A pin thread that would need 15 ms did deliver every 9 ms."""
    trace = replace(paced(), calibration=replace(TWO, pin_thread_bytes_per_us=1_000))
    assert with_more_workers(trace, (more(4),)).loader.period_ns == 9_000_000


def test_a_worker_makes_batches_without_the_profiler() -> None:
    """3,000 in the loader with 98 operators, the loader's own row and the step's: at 5 each, a worker needs 2,500."""

    def body(machine: Machine) -> None:
        for _ in range(98):
            machine.events.add("cpu_op", "aten::add", machine.now + 10, 1)
        machine.load_batch(3_000)
        machine.launch("gemm", 100)

    trace = replace(build(body, calibration=Calibration(loader_workers=0)), overhead=AT_FIVE)
    assert with_more_workers(trace, (more(1),)).loader == LoaderPace(1, 2_500_000)


def test_a_loader_that_kept_up_shows_no_pace_of_more_workers() -> None:
    assert with_more_workers(paced(period_ns=None), (more(4),)).loader == LoaderPace(4, None)


@pytest.mark.parametrize(
    ("workers", "change"),
    [(4, more(4)), (4, more(2)), (None, more(4)), (2, Edit("interval-sync", (SYNC,), interval=10))],
    ids=["as many", "fewer", "unknown now", "another kind"],
)
def test_without_more_workers_nothing_changes(workers: int | None, change: Edit) -> None:
    trace = paced(workers)
    assert with_more_workers(trace, (change,)) is trace


# ------------------------------------------------------------------------------------------- what workers do not take


def made_by_the_loop(iterators: float = 0.0, order_ns: int = 0) -> ReplayTrace:
    """Python makes a batch for 30 ms and does something else for 30; the GPU computes for 0.1."""

    def body(machine: Machine) -> None:
        machine.load_batch(30_000)
        machine.host(30_000)
        machine.launch("gemm", 100)

    calibration = Calibration(loader_workers=0, unpack_ns=1_000_000, worker_start_ns=50_000_000)
    made = build(body, calibration=calibration)
    return replace(made, loader=LoaderPace(0, None, iterators, order_ns))


def test_which_samples_come_next_is_the_main_threads_with_any_number_of_workers() -> None:
    """Of 30 ms 24 are the order's: workers share 6, and the loop takes 24 and hands over for 1."""
    after = with_more_workers(made_by_the_loop(order_ns=24_000_000), (more(2),))
    assert after.loader.period_ns == 25_000_000
    assert [op.issue_ns for op in after.steps[1] if isinstance(op, HostOp) and op.kind == "loader"] == [25_000_000]


@pytest.mark.parametrize(("iterators", "pays"), [(0.0, True), (0.1, True), (0.5, False), (1.0, False)])
def test_workers_that_start_with_each_iterator_do_not_pay_where_there_are_many(iterators: float, pays: bool) -> None:
    """Each makes its first batch while the loop waits, and starts for 50 ms."""
    assert bool(worker_count.paying(made_by_the_loop(iterators))) is pays


def test_a_user_who_asks_for_workers_is_told_that_the_step_gets_longer() -> None:
    trace = made_by_the_loop(iterators=1.0)
    assert time_us(trace, more(4)) > time_us(trace) + 50_000


# -------------------------------------------------------------------------------------------------- how many at once


@pytest.mark.parametrize(
    ("cores", "wanted", "counting"),
    [(None, 8, 8), (16, 8, 8), (8, 8, 7), (1, 8, 2)],
    ids=["unknown", "enough", "one is the training thread's", "never fewer than now"],
)
def test_workers_that_get_a_core(cores: int | None, wanted: int, counting: int) -> None:
    trace = replace(paced(workers=2), calibration=Calibration(loader_cores=cores))
    assert workers_with_a_core(trace, wanted) == counting


@pytest.mark.parametrize(("workers", "cores", "least_us"), [(2, None, 3_000), (4, 3, 2_000), (1, None, 6_000)])
def test_workers_need_the_time_of_a_batch_for_a_step(workers: int, cores: int | None, least_us: int) -> None:
    costs = Calibration(loader_batch_ns=6_000_000, loader_cores=cores)
    assert least_step_ns(replace(paced(workers), calibration=costs)) == least_us * 1_000


def test_a_step_that_was_delivered_is_not_longer_than_itself() -> None:
    trace = replace(paced(1), calibration=Calibration(loader_batch_ns=10**12))
    assert least_step_ns(trace) == trace.base_ns


def test_an_unmeasured_loader_sets_no_least_step() -> None:
    assert least_step_ns(paced(workers=0, loader_batch_ns=6_000_000)) == 0
    assert least_step_ns(build(synchronized)) == 0
