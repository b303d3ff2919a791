"""Recorded steps that are not the unprofiled ones: no gain is told, and what is known all the same is."""

from __future__ import annotations

from tests.support.builders import Machine
from tests.support.replaying import stalls_by_kind
from tracelens.model import Abstention, StepClock
from tracelens.replay import trace_builder
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.trace import timeline


def built(unprofiled_us: float) -> ReplayTrace | Abstention:
    """Kernels of 200 µs behind one another, read after each step of 10 ms of Python."""
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            for _ in range(10):
                machine.launch("gemm", 200)
            machine.item()
            machine.host(10_000)
    picture = timeline.build(machine.trace())
    return trace_builder.build(
        picture, stalls_by_kind(picture), StepClock(unprofiled_mean_ns=round(unprofiled_us * 1e3))
    )


def test_a_step_that_the_recorded_ones_do_not_explain_still_tells_the_gpus_part() -> None:
    """10 kernels with their gaps take 2.01 ms; the host's 10 ms may be worth half of that, and no less."""
    found = built(4_000)
    assert isinstance(found, Abstention)
    assert "an unprofiled one 4.00 ms, so no gain can be told" in found.missing
    assert found.missing.endswith("the GPU's work of 2.01 ms would fill 50 % of an unprofiled step")


def test_where_even_the_gpus_work_is_longer_no_share_is_told() -> None:
    found = built(1_000)
    assert isinstance(found, Abstention)
    assert found.missing.endswith("the GPU's work alone takes 2.01 ms")
    assert "%" not in found.missing


def test_a_step_that_they_explain_is_replayed() -> None:
    assert isinstance(built(12_000), ReplayTrace)
