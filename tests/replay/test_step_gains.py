"""A promise is about the steps that a training will have: no single recorded step makes it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.builders import Machine
from tests.support.random_loops import MOVES, QUICK, Move, play, stalls
from tracelens.model import Abstention, Edit, Estimate
from tracelens.replay import baseline, estimate, trace_builder
from tracelens.replay.edits import OWN_MAPPING_BYTES, apply
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time
from tracelens.replay.step_gains import StepGains
from tracelens.trace import timeline

COPIES = (Edit("async-copy", ("h2d",)),)
READS = (Edit("defer-read", ("d2h",), interval=10),)


def copying(*copies_us: float) -> ReplayTrace:
    """Steps of 60 ms of kernels, each after a copy from pageable memory."""
    machine = Machine()
    for number, copy in enumerate(copies_us):
        with machine.step(number):
            machine.load_batch(200)
            machine.copy("h2d", "pageable", copy, nbytes=20_000_000)
            for _ in range(20):
                machine.launch("conv", 3_000)
            machine.item()
    picture = timeline.build(machine.trace())
    made = trace_builder.build(picture, stalls(picture))
    assert isinstance(made, ReplayTrace), made
    return made


def gain(made: ReplayTrace, edits: tuple[Edit, ...]) -> tuple[float, float, float]:
    """Saved share of the step: middle, least, most."""
    found = estimate.predict(made, edits)
    assert isinstance(found, Estimate), found
    low, middle, high = (1 - ns / found.base_ns for ns in (found.high_ns, found.step_ns, found.low_ns))
    return middle, low, high


def test_a_first_copy_of_45_ms_promises_nothing_for_the_others() -> None:
    """The others copy for 3 to 10 ms: 5.6 on average, which is 8 % of a step with its copy."""
    made = copying(45_700, 3_000, 10_000, 4_000, 6_000, 5_000)
    found = estimate.predict(made, COPIES)
    assert isinstance(found, Estimate)
    assert "step 1 of the 6 recorded ones alone would give" in found.assumptions[-1]
    middle, _, high = gain(made, COPIES)
    without, _, _ = gain(copying(3_000, 10_000, 4_000, 6_000, 5_000), COPIES)
    assert middle == pytest.approx(without, abs=0.002)
    assert middle < 0.085 < high


def test_of_three_steps_of_which_one_gains_all_nothing_is_promised() -> None:
    found = estimate.predict(copying(45_700, 1_000, 1_000), COPIES)
    assert isinstance(found, Abstention)
    assert found.missing.startswith("step 1 of the 3 recorded ones alone would give")


def test_steps_that_gain_alike_are_all_counted() -> None:
    made = copying(5_000, 5_000, 5_000, 5_000)
    found = estimate.predict(made, COPIES)
    assert isinstance(found, Estimate)
    assert not any("alone" in one for one in found.assumptions)


def test_work_of_every_few_steps_keeps_its_gain() -> None:
    """Two of eight steps copy for long: that is how this loop is, and the gain is that of all eight."""
    made = copying(*(30_000 if number in (2, 6) else 1_000 for number in range(8)))
    middle, low, high = gain(made, COPIES)
    before, after = (step_time(compile_program(apply(made, edits), 0.0)) for edits in ((), COPIES))
    assert middle == pytest.approx(1 - after / before, abs=1e-6)
    assert low < middle < high


def test_a_range_holds_the_gain_without_any_single_step() -> None:
    made = copying(9_000, 9_000, 1_000, 1_000, 1_000, 1_000)
    _, low, high = gain(made, COPIES)
    times = StepGains(baseline.step_times_ns(made), tuple(time_alone(made, step) for step in range(6)))
    for changed in times.leave_one_out():
        assert low <= 1 - (sum(times.after_ns) / sum(times.before_ns) + changed) <= high


def time_alone(made: ReplayTrace, step: int) -> float:
    return step_time(compile_program(apply(made, COPIES), made.overhead.row_ns), (step,))


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((5, 1, 1, 1), 0),  # more than the others together
        ((1, 1, 1, 4), 3),
        ((3, 1, 1, 1), 0),  # at the edge: more than twice the largest of the others
        ((1, 3, 1, 1), None),
        ((1, 4, 1, 1), 1),
        ((2, 2, 2), None),
        ((9, 1), None),  # too few to tell which is usual
        ((0, 0, 0), None),
        ((4, -9, 1, 1), None),  # all together it is no gain
    ],
)
def test_which_step_is_not_counted(gains: tuple[int, ...], expected: int | None) -> None:
    assert StepGains((100.0,) * len(gains), tuple(100.0 - one for one in gains)).lone_step() == expected


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=10), st.sampled_from(["d2h", "h2d", "device"]))
@example([("h2d", 1)], "device")  # the GPU has its bytes before the call returns
@example([("item", 1), ("launch", 4)], "device")  # the first of the four waits finds the GPU idle
@example([("item", 3), ("h2d", 20), ("host", 282)], "h2d")  # the pin thread gives back the batch's memory
@QUICK
def test_a_saving_is_no_more_than_what_was_recorded_as_lost(moves: list[Move], kind: str) -> None:
    """The calls behind the waits, and for copies the transfer: the time of both is all that a change can give back.

    Those of the first recorded step do not count: nothing was launched before its first wait, as in no later step.
    A batch that a pin thread copies is also given back by it: no more of that than such memory takes at most.
    """
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            machine.synchronize()
            machine.launch("first", 50)
            play(machine, moves)
    picture = timeline.build(machine.trace())
    made = trace_builder.build(picture, stalls(picture))
    assert isinstance(made, ReplayTrace)
    if kind not in made.stalls:
        return
    waits, calls, ops = picture.syncs(), picture.calls(), picture.ops()
    behind = waits[(waits["kind"] == kind) & (waits["step"] > 0)]
    touched = set(behind["call"]) | set(behind["copy"])
    own = calls[calls.index.isin(touched)]
    copied = ops[ops["call"].isin(touched)]
    lost = sum((frame["end_ns"] - frame["start_ns"]).sum() for frame in (own, copied)) / 3
    if kind == "h2d":
        costs, sizes = made.calibration, copied["bytes"]
        mapped = (sizes >= OWN_MAPPING_BYTES).sum() * costs.release_tensor_ns
        lost += (mapped + sizes.sum() * 1_000 / costs.release_bytes_per_us) / 3
    change = {"d2h": READS, "h2d": COPIES, "device": (Edit("interval-sync", ("device",), interval=10),)}[kind]
    before, after = (step_time(compile_program(apply(made, edits), 0.0)) for edits in ((), change))
    assert before - after <= lost + 1
