"""Replays of loops that the builders' machine plays: their recording, their waits by name, their step time."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.builders import Machine
from tracelens.model import Edit, Stall, Timeline
from tracelens.replay import edits, trace_builder
from tracelens.replay.calibration import Calibration
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time
from tracelens.trace import timeline

STEPS = 8
SYNC, READ, COPY = "sync", "read", "copy"


def build(body: Callable[[Machine], None], **options: object) -> ReplayTrace:
    made = trace_builder.build(*timeline_and_stalls(body), **options)  # type: ignore[arg-type]
    assert isinstance(made, ReplayTrace), made
    return made


def timeline_and_stalls(body: Callable[[Machine], None], steps: int = STEPS) -> tuple[Timeline, tuple[Stall, ...]]:
    machine = Machine()
    for number in range(steps):
        with machine.step(number):
            body(machine)
    picture = timeline.build(machine.trace())
    return picture, stalls_by_kind(picture)


def stalls_by_kind(picture: Timeline) -> tuple[Stall, ...]:
    """The waits by kind: all device waits are `sync`, reads `read`, host-to-device `copy`, others by kind."""
    waits = picture.syncs()
    waits = waits[~waits["window_edge"]]
    names = {"device": SYNC, "d2h": READ, "h2d": COPY}
    made = []
    for kind in sorted(set(waits["kind"])):
        rows = waits[waits["kind"] == kind]
        name, wait_ns, places = names.get(kind, kind), int(rows["wait_ns"].mean()), tuple(rows.index)
        made.append(Stall(name, kind, kind, 1, wait_ns, 0, None, "unknown", None, places))
    return tuple(made)


def time_us(made: ReplayTrace, *changes: Edit) -> float:
    return step_time(compile_program(edits.apply(made, changes), made.overhead.row_ns)) / 1000


def synchronized(machine: Machine) -> None:
    """Launch 5, host 50, kernel 200 from 7, done 207, back at 210, then 40 of Python: 250."""
    machine.launch("gemm", 200)
    machine.host(50)
    machine.synchronize()
    machine.host(40)


WAIT, READY = 9_000, 300
TWO = Calibration(loader_workers=2)


def starved(machine: Machine) -> None:
    """Waits 9,000 for a batch; a pinned copy of 300, then 500 on the GPU that nothing hides: 815 after the batch."""
    machine.load_batch(WAIT)
    machine.copy("h2d", "pinned", 300, nbytes=15_000_000)
    machine.launch("gemm", 500)
    machine.synchronize()


def more(workers: int) -> Edit:
    return Edit("more-workers", workers=workers)
