"""Recorded times on the baseline: the GPU's work stays, idle time fills the rest; numbers worked out in the head."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import report_cases as cases
from tracelens.model import (
    BREAKDOWN_PARTS,
    Breakdown,
    Diagnosis,
    Owner,
    Owners,
    StepSource,
    StepTimes,
    baseline,
    baseline_of,
    on_baseline,
)

MS = cases.MS


def parts(**known: int) -> Breakdown:
    """In ms."""
    times = dict.fromkeys(BREAKDOWN_PARTS, 0) | {part: ms * MS for part, ms in known.items()}
    return Breakdown(sum(times.values()), times)


def times(unprofiled: int | None = None, measured: int | None = None, source: StepSource = "tracelens") -> StepTimes:
    """Recorded steps of 10 ms; the others in ms."""
    known = (None if ms is None else ms * MS for ms in (unprofiled, measured))
    before, originals = known
    return StepTimes(3, source, 10 * MS, 10 * MS, 10 * MS, before, measured_ns=originals)


HOST_BOUND = parts(compute=1, copy_exposed=1, idle_host=6, idle_sync=2)
"""2 ms of work, 8 of idle time."""


def recorded(steps: StepTimes, of_step: Breakdown | None = HOST_BOUND) -> Diagnosis:
    """With a wait of 4 ms, in 3 of which the GPU idles; it owns 2 ms of that. The host owns 6."""
    (stall, *_) = cases.diagnosis().stalls
    wait = replace(stall, wait_ns=4 * MS, gpu_idle_ns=2 * MS, idle_inside_ns=3 * MS)
    owners = (
        Owner("host_line", 6 * MS), Owner("wait", 2 * MS, group="s1"), Owner("gpu", MS), Owner("copy", MS),
    )  # fmt: skip
    share = None if of_step is None else 0.2
    return cases.diagnosis(
        steps=steps,
        breakdown=of_step,
        gpu_busy_share=share,
        idle_share=None if share is None else 1 - share,
        stalls=(wait,),
        owners=Owners(10 * MS, owners),
    )


def test_the_profiler_slows_python_and_not_kernels() -> None:
    """6 ms without the profiler: 2 of work stay, 8 of idle time become 4, each half of what it was."""
    told = on_baseline(recorded(times(unprofiled=6)))
    assert told.breakdown == parts(compute=1, copy_exposed=1, idle_host=3, idle_sync=1)
    assert (told.gpu_busy_share, told.idle_share) == (pytest.approx(2 / 6), pytest.approx(4 / 6))
    assert [owner.owned_ns for owner in told.owners.owners] == [3 * MS, MS, MS, MS] and told.owners.wall_ns == 6 * MS
    (wait,) = told.stalls
    assert (wait.wait_ns, wait.gpu_idle_ns) == (2_500_000, MS)  # 1 beside work, and half of 3
    assert wait.exposed_ns == recorded(times(6)).stalls[0].exposed_ns, "a prediction is on the baseline already"


def test_a_measured_original_may_take_longer_than_the_recorded_step() -> None:
    """18 ms: 2 of work, and 16 for what was 8."""
    told = on_baseline(recorded(times(unprofiled=6, measured=18)))
    assert told.breakdown == parts(compute=1, copy_exposed=1, idle_host=12, idle_sync=4)
    assert told.gpu_busy_share == pytest.approx(2 / 18) and told.stalls[0].wait_ns == 7 * MS


def rows_out(diagnosis: Diagnosis) -> Diagnosis:
    """Of the 6 ms of the host 2 went to recorded rows, and of the wait's two 1, of the three inside it 1."""
    taken = replace(HOST_BOUND, row_ns=1000.0, profiler_ns={"idle_host": 2 * MS, "idle_sync": MS})
    wait = replace(diagnosis.stalls[0], profiler_ns=MS, profiler_inside_ns=MS)
    line, waits, *work = diagnosis.owners.owners
    owners = (replace(line, profiler_ns=2 * MS), replace(waits, profiler_ns=MS), *work)
    return replace(diagnosis, breakdown=taken, stalls=(wait,), owners=Owners(10 * MS, owners))


def test_what_rows_took_goes_where_they_are_and_the_rest_keeps_its_time() -> None:
    """7 ms without the profiler: the 3 that are gone are the rows', so what is left of line and wait is as recorded."""
    told = on_baseline(rows_out(recorded(times(unprofiled=7))))
    assert told.breakdown is not None and told.breakdown.wall_ns == 7 * MS
    assert (told.breakdown.parts["idle_host"], told.breakdown.parts["idle_sync"]) == (4 * MS, MS)
    assert [owner.owned_ns for owner in told.owners.owners] == [4 * MS, MS, MS, MS] and told.owners.wall_ns == 7 * MS
    (wait,) = told.stalls
    assert (wait.wait_ns, wait.gpu_idle_ns, wait.idle_inside_ns) == (3 * MS, MS, 2 * MS)  # 1 beside work
    assert on_baseline(told) is told and told.owners.owners[0].profiler_ns == wait.profiler_ns == 0


def test_what_rows_cannot_explain_is_one_factor_for_the_rest() -> None:
    """4.5 ms: after the rows 5 ms of idle time are left, of which half stays."""
    told = on_baseline(rows_out(recorded(replace(times(), unprofiled_median_ns=9 * MS // 2))))
    assert [owner.owned_ns for owner in told.owners.owners] == [2 * MS, MS, MS, MS // 2]


def test_the_profiler_takes_no_more_of_a_part_than_there_is() -> None:
    with pytest.raises(ValueError, match="the profiler took"):
        replace(HOST_BOUND, profiler_ns={"idle_sync": 3 * MS})


@pytest.mark.parametrize(("work", "unprofiled"), [(8, 8), (9, 8)])
def test_work_that_leaves_no_room_fills_the_step(work: int, unprofiled: int) -> None:
    """Under the profiler the GPU waited for Python; without it there is no time in which it could."""
    steps = parts(compute=work, idle_host=10 - work)
    told = on_baseline(replace(recorded(times(unprofiled=unprofiled), steps), gpu_busy_share=work / 10))
    assert told.breakdown == parts(compute=8) and (told.gpu_busy_share, told.idle_share) == (1.0, 0.0)


def test_without_idle_time_there_is_none_to_stretch() -> None:
    told = on_baseline(recorded(times(measured=20), parts(compute=10)))
    assert told.breakdown == parts(compute=20) and told.gpu_busy_share == 1.0


def test_without_a_gpu_every_time_is_scaled_alike() -> None:
    told = on_baseline(recorded(times(unprofiled=5), None))
    assert (told.breakdown, told.gpu_busy_share, told.idle_share) == (None, None, None)
    assert [owner.owned_ns for owner in told.owners.owners] == [3 * MS, MS, MS // 2, MS // 2]
    assert told.stalls[0].wait_ns == 2 * MS


@pytest.mark.parametrize(
    "steps",
    [
        replace(times(), median_ns=5 * MS),  # its mean is 10
        replace(times(unprofiled=5), source="none"),
        replace(times(unprofiled=5), certain=False),
    ],
)
def test_where_nothing_says_what_the_profiler_did_shares_are_as_recorded(steps: StepTimes) -> None:
    told = on_baseline(recorded(steps))
    assert told.breakdown is not None and told.breakdown.parts["compute"] == MS // 2
    assert told.breakdown.wall_ns == 5 * MS and told.gpu_busy_share == pytest.approx(0.2)


def test_a_wait_of_which_nobody_knows_whether_the_gpu_worked_is_the_same_share_of_the_step() -> None:
    assert baseline(times(unprofiled=6), HOST_BOUND, 10 * MS).spent(5 * MS, None, 0) == 3 * MS


def test_what_is_on_the_baseline_stays_and_a_step_of_no_length_is_left_alone() -> None:
    told = on_baseline(recorded(times(unprofiled=6)))
    assert on_baseline(told) is told and baseline_of(told) == told.told_of
    empty = baseline(replace(times(), median_ns=0), None, 0)
    assert empty.worked(7) == empty.idled(7, 0) == empty.spent(7, 3, 0) == 7


def test_copies_that_nothing_hides_are_work_and_who_waits_for_one_is_not() -> None:
    place = cases.SYNC
    assert Owner("copy", MS).is_gpu_work and Owner("gpu", MS).is_gpu_work and Owner("communication", MS).is_gpu_work
    assert not Owner("copy", MS, (place,), "Tensor.to", "s1").is_gpu_work and not Owner("wait", MS).is_gpu_work
