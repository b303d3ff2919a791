"""Timelines of loops that the builders' machine plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.builders import Events, Machine
from tracelens.model import Location, RankRecording, Timeline
from tracelens.trace import intervals, timeline

US = 1000


def looped(body: Callable[[Machine], None], steps: int = 4, **machine: Any) -> Timeline:
    host = Machine(**machine)
    for number in range(steps):
        with host.step(number):
            body(host)
    return timeline.build(host.trace())


def built(events: Events, recording: RankRecording | None = None) -> Timeline:
    return timeline.build(events.trace(), recording)


def idle_us(picture: Timeline, step: int) -> dict[str, float]:
    """Idle time of a step by cause."""
    gaps = picture.idle_gaps()
    gaps = gaps[gaps["step"] == step]
    lengths = (gaps["end_ns"] - gaps["start_ns"]).groupby(gaps["cause"].astype(str)).sum()
    return {cause: ns / US for cause, ns in lengths.items()}


def assert_every_nanosecond_has_one_owner(picture: Timeline) -> None:
    """Idle rows do not overlap, and with the busy time they fill the kept steps."""
    gaps, ops, steps = picture.idle_gaps(), picture.ops(), picture.steps()
    for device, mine in gaps.groupby("device"):
        rows = mine.sort_values("start_ns")
        assert (rows["end_ns"] > rows["start_ns"]).all()
        assert (rows["start_ns"].to_numpy()[1:] >= rows["end_ns"].to_numpy()[:-1]).all()
        busy = intervals.union(*(ops.loc[ops["device"] == device, key] for key in ("start_ns", "end_ns")))
        for position, step in steps[steps["kept"]].iterrows():
            idle = rows[rows["step"] == position]
            covered = intervals.total(intervals.clip(busy, step["start_ns"], step["end_ns"]))
            assert int((idle["end_ns"] - idle["start_ns"]).sum()) + covered == step["end_ns"] - step["start_ns"]


def per_batch(machine: Machine) -> None:
    """622 us: loader 0-40, copy call 40-100, kernels 107-407, 408-508, synchronize until 511, `.item()` until 522."""
    machine.load_batch(40)
    machine.copy("h2d", "pageable", 50, nbytes=1 << 20)
    machine.launch("gemm", 300)
    machine.host(20)
    machine.launch("relu", 100)
    machine.synchronize()
    machine.item()
    machine.host(100)


# ------------------------------------------------------------------------------------------------------ source lines

READ, STOP, LOAD = Location("train.py", 12, "main"), Location("train.py", 11, "main"), Location("train.py", 8, "main")
