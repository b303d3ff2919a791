"""Which source line a wait belongs to: carried from attributed steps, from samples or frames, and never guessed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tests.support.builders import BASE_NS, MAIN, Machine
from tests.support.timelines import LOAD, READ, STOP, US, built, per_batch
from tracelens.model import RankRecording, SourceMark, StackSample


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
