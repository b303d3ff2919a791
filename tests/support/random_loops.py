"""Loops drawn at random, for properties that hold of every replay."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.builders import Machine
from tracelens.model import Stall, Timeline
from tracelens.replay import trace_builder
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.trace import timeline

Move = tuple[str, int]
MOVES = st.tuples(st.sampled_from(["launch", "host", "sync", "item", "h2d", "cpu"]), st.integers(1, 400))
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def play(machine: Machine, moves: list[Move], scale: float = 1) -> None:
    plays: dict[str, Callable[[float], object]] = {
        "launch": lambda us: machine.launch("kernel", us),
        "host": machine.host,
        "load": machine.load_batch,
        "sync": lambda _: machine.synchronize(),
        "item": lambda _: machine.item(),
        "h2d": lambda us: machine.copy("h2d", "pageable", us, nbytes=round(us * 20_000)),
        "cpu": lambda us: machine.copy("d2h", "pageable", us, nbytes=round(us * 20_000)),
    }
    for kind, us in moves:
        plays[kind](us * scale)


def build(moves: list[Move], steps: int = 4) -> ReplayTrace:
    machine = Machine()
    for number in range(steps):
        with machine.step(number):
            # Every step drains the GPU at its start, so that the short window is a steady one.
            machine.synchronize()
            machine.launch("first", 50)
            play(machine, moves)
    picture = timeline.build(machine.trace())
    made = trace_builder.build(picture, stalls(picture))
    assert isinstance(made, ReplayTrace), made
    return made


def stalls(picture: Timeline) -> tuple[Stall, ...]:
    waits = picture.syncs()
    kinds = sorted(set(waits["kind"]))
    return tuple(
        Stall(kind, kind, kind, 1, 0, 0, None, "unknown", None, tuple(waits[waits["kind"] == kind].index))
        for kind in kinds
    )
