"""Where a step begins and ends, from marks or without them."""

from __future__ import annotations

import pytest

from tests.support.builders import Events, Machine
from tests.support.timelines import US, assert_every_nanosecond_has_one_owner, built, per_batch
from tracelens.model import RankRecording

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


@pytest.mark.parametrize(("pause", "end"), [(300, 22_100), (100, 22_200)])
def test_a_pause_in_which_attribution_is_installed_belongs_to_no_step(pause: int, end: int) -> None:
    events = Events()
    for number, at in enumerate((0, 11_100, 22_100 + pause, 33_200 + pause)):
        events.step(number, at, 11_000)
        events.kernel(events.call("cudaLaunchKernel", at + 1, 5), "gemm", at + 10, 20)
    recording = RankRecording(0, None, attributed_steps=(2, 3), meta={"step_marks": "tracelens"})
    steps = built(events, recording).steps()
    assert list(steps["end_ns"])[:2] == [11_100 * US, end * US]


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
