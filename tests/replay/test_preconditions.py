"""Which recordings hold too little for a replay, and what they are told to record."""

from __future__ import annotations

from tests.support.builders import Machine
from tests.support.replaying import build, synchronized, timeline_and_stalls
from tracelens.replay import preconditions
from tracelens.trace import timeline


def test_three_complete_steps_are_enough() -> None:
    assert preconditions.too_few_records(timeline_and_stalls(synchronized)[0]) is None
    few = preconditions.too_few_records(timeline_and_stalls(synchronized, steps=2)[0])
    assert few is not None and few.missing.endswith(f"{preconditions.FEWEST_STEPS} are needed")


def test_a_loop_without_gpu_work_says_so() -> None:
    machine = Machine()
    for number in range(5):
        with machine.step(number):
            machine.host(100)
    made = timeline.build(machine.trace())
    refused = preconditions.too_few_records(made)
    assert preconditions.too_little_known(made) is None
    assert refused is not None and refused.missing == "the trace has no GPU work"


def test_what_is_far_off_says_by_how_much() -> None:
    picture, _ = timeline_and_stalls(synchronized)
    said = preconditions.unexplained(-0.2, picture, build(synchronized))
    assert said.missing == "the replay of the recorded steps is off by −20 %: what the host did is not all there"
