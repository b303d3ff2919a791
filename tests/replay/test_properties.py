"""What must hold of every replay: nothing gets slower by waiting less, time scales, limits are limits, order is none.

Loops are drawn at random from the builders' machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builders import Machine
from tests.support.op_blocks import with_op_blocks
from tests.support.random_loops import MOVES, QUICK, Move, build, play
from tracelens.model import Edit
from tracelens.replay import bounds, edits, exposed_cost, trace_builder
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import (
    Engine,
    HostOp,
    HostOpKind,
    LoaderPace,
    ReplayTrace,
    StallWaits,
    all_host_ops,
)
from tracelens.replay.steady_state import step_time
from tracelens.trace import timeline

ROUNDED_NS = 1
"""Times are whole ns; limits and step times are rounded on their own."""


def time_of(made: ReplayTrace, *changes: Edit) -> float:
    return step_time(compile_program(edits.apply(made, changes), 0.0))


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12))
@QUICK
def test_the_base_is_met_and_no_limit_is_passed(moves: list[Move]) -> None:
    made = build(moves)
    assert abs(made.errors.recorded) < 0.03
    assert bounds.step_bounds(made).largest_ns <= made.base_ns + ROUNDED_NS


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12))
@QUICK
def test_removing_waits_never_lengthens_a_step(moves: list[Move]) -> None:
    made = build(moves)
    base = time_of(made)
    every = frozenset(wait for place in made.stalls.values() for wait in place.waits)
    without_all = step_time(compile_program(edits.without(made, every), 0.0))
    for place in made.stalls.values():
        without = step_time(compile_program(edits.without(made, place.waits), 0.0))
        assert without_all <= without <= base
    assert all(cost >= 0 for cost in exposed_cost.per_stall(made).values())


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=10))
@QUICK
def test_another_threads_python_costs_between_nothing_and_all_of_it(moves: list[Move]) -> None:
    """A pin thread's work delays a loop by no more than it lasts, and never makes it faster; no limit is passed."""
    made = build([("load", 700), *moves, ("h2d", 90)])
    quick = replace(made.calibration, loader_workers=4, pin_thread_copy_factor=0.01, pin_thread_bytes_per_us=1e6)
    made = replace(made, loader=LoaderPace(4), calibration=quick)
    free = replace(made, calibration=replace(quick, pin_thread_contention=0.0))
    pinned = Edit("async-copy", ("h2d",))
    spent = [
        op.issue_ns
        for step in edits.apply(made, (pinned,)).variants
        for op in step
        if isinstance(op, HostOp) and op.kind == "background"
    ]
    assert min(spent) > 0
    alone, contended = time_of(free, pinned), time_of(made, pinned)
    assert alone <= contended <= alone + max(spent)
    assert bounds.step_bounds(made, (pinned,)).largest_ns <= contended * made.base_ns / time_of(made) + ROUNDED_NS


TIMES = st.integers(0, 300).map(lambda us: us * 1_000)
WAITS: tuple[HostOpKind, ...] = ("sync", "event_sync", "blocking", "staged")


@st.composite
def ops(draw: st.DrawFn) -> HostOp:
    """Anything a host may do on three streams, with any latency and return; more than a machine would."""
    kinds: list[HostOpKind] = ["work", "launch", "launch", "record", "stream_wait", "loader", *WAITS]
    kind = draw(st.sampled_from(kinds))
    op = HostOp(kind, draw(TIMES) // 5, draw(TIMES) // 5, stream=draw(st.integers(0, 2)), return_ns=draw(TIMES) // 6)
    if kind in ("launch", "staged", "blocking"):
        engine = draw(st.sampled_from(ENGINES[kind]))
        size = draw(st.sampled_from([4, 10_000_000])) if engine else 0
        spent = draw(TIMES), draw(TIMES) // 15, draw(TIMES) // 100
        return op._replace(duration_ns=spent[0], latency_ns=spent[1], spacing_ns=spent[2], engine=engine, size=size)
    if kind == "sync":
        return op._replace(stream=draw(st.sampled_from([-1, op.stream])))
    return op._replace(event="e", lag=draw(st.integers(0, 1))) if kind != "work" else op


ENGINES: dict[str, tuple[Engine, ...]] = {"launch": ("", "h2d"), "staged": ("h2d",), "blocking": ("d2h",)}


@st.composite
def tapes(draw: st.DrawFn) -> ReplayTrace:
    """Any program: launch queues that fill, streams that wait for each other, a loader that may set the pace."""
    steps = draw(st.lists(st.lists(ops(), min_size=1, max_size=14), min_size=1, max_size=4))
    counted = [(place, list(enumerate(step, 100 * place))) for place, step in enumerate(steps)]
    steps = [
        [
            HostOp("work", 1_000),
            *(one._replace(call=call, wait=call if one.kind in WAITS else -1) for call, one in step),
        ]
        for _, step in counted
    ]
    waits = {kind: StallWaits(frozenset(op.wait for step in steps for op in step if op.kind == kind)) for kind in WAITS}
    loads = any(op.kind == "loader" for step in steps for op in step)
    period = draw(st.none() | st.integers(1, 900_000)) if loads else None
    made = plain()
    costs = replace(made.calibration, queue_limit=draw(st.sampled_from([3, 40, 1000])), loader_workers=4)
    folded = with_op_blocks(steps)
    made = replace(made, steps=folded, streams=("a", "b", "c"), stalls=waits, calibration=costs)
    made = replace(made, loader=LoaderPace(4, period))
    return replace(made, steady_ns=round(time_of(made)))


@cache
def plain() -> ReplayTrace:
    return build([("launch", 10), ("sync", 1)])


@pytest.mark.slow
@given(tapes())
@settings(QUICK, max_examples=80)
def test_of_any_program_removing_waits_is_exact(made: ReplayTrace) -> None:
    """To the nanosecond: fewer waits are never slower, and nothing is faster than its limits."""
    base = time_of(made)
    assert bounds.step_bounds(made).largest_ns <= base + ROUNDED_NS
    every = frozenset(wait for place in made.stalls.values() for wait in place.waits)
    without_all = step_time(compile_program(edits.without(made, every), 0.0))
    for place in made.stalls.values():
        without = step_time(compile_program(edits.without(made, place.waits), 0.0))
        assert without_all <= without <= base


def test_two_clocks_that_swing_against_each_other_have_one_rate() -> None:
    """Found by the property above: host and stream took 57,400 and 57,000 ns in turn, each 57,200 on average."""
    ops = (
        HostOp("work", gap_ns=1_000, issue_ns=0, rows=0, stream=-1),
        HostOp("launch", gap_ns=0, issue_ns=0, rows=0, stream=0, duration_ns=56_000, call=1),
        HostOp("blocking", gap_ns=0, issue_ns=200, rows=0, stream=1, engine="d2h", size=4, wait=2, call=2),
        HostOp("staged", gap_ns=55_200, issue_ns=0, rows=0, stream=1, duration_ns=2_000, engine="h2d", size=4, wait=3),
        HostOp("staged", gap_ns=0, issue_ns=0, rows=0, stream=0, engine="h2d", size=10_000_000, wait=4, call=4),
    )
    made = replace(plain(), steps=(ops,), streams=("a", "b"))
    without = step_time(compile_program(edits.without(made, frozenset({2})), 0.0))
    assert without <= time_of(made) == 57_200


@pytest.mark.slow
@given(tapes(), st.integers(5, 40))
@settings(QUICK, max_examples=60)
def test_more_workers_are_never_slower_and_never_faster_than_their_share(made: ReplayTrace, wanted: int) -> None:
    hired = Edit("more-workers", workers=wanted)
    after = time_of(made, hired)
    assert after <= time_of(made)
    limits = bounds.step_bounds(made, (hired,))
    assert limits.largest_ns <= after * made.base_ns / max(1.0, time_of(made)) + ROUNDED_NS
    if made.loader.period_ns is not None:
        assert after >= made.loader.period_ns * 4 // wanted


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12), st.integers(2, 6))
@QUICK
def test_a_longer_interval_is_never_slower(moves: list[Move], interval: int) -> None:
    made = build(moves)
    some = time_of(made, Edit("interval-sync", ("device",), interval=interval))
    fewer = time_of(made, Edit("interval-sync", ("device",), interval=2 * interval))
    assert fewer <= some <= time_of(made)


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12), st.sampled_from([2, 7]))
@QUICK
def test_scaling_every_duration_scales_the_step(moves: list[Move], factor: int) -> None:
    made = build(moves)
    assert time_of(scaled(made, factor)) == pytest.approx(factor * time_of(made), rel=2e-3)


def scaled(made: ReplayTrace, factor: int) -> ReplayTrace:
    def longer(op: HostOp) -> HostOp:
        names = ("gap_ns", "issue_ns", "duration_ns", "latency_ns", "spacing_ns", "return_ns")
        return op._replace(**{name: getattr(op, name) * factor for name in names})

    return replace(made, steps=with_op_blocks([[longer(op) for op in all_host_ops(step)] for step in made.steps]))


def test_the_order_of_rows_in_the_file_changes_nothing() -> None:
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            play(machine, [("launch", 200), ("h2d", 90), ("launch", 30), ("host", 20), ("item", 1)])
    first = trace_builder.build(timeline.build(machine.trace()))
    np.random.default_rng(0).shuffle(machine.events.rows)
    second = trace_builder.build(timeline.build(machine.trace()))
    assert isinstance(first, ReplayTrace)
    assert isinstance(second, ReplayTrace)
    assert time_of(first) == time_of(second)
    assert bounds.step_bounds(first) == bounds.step_bounds(second)


@dataclass
class Big:
    """8 steps with 1,250 calls each, the size of the benchmark in the issue."""

    made: ReplayTrace

    @classmethod
    def build(cls) -> Big:
        moves: list[Move] = []
        for index in range(620):
            moves += [("launch", 5 + index % 7), ("host", 3)]
            if index % 155 == 154:
                moves += [("launch", 20), ("item", 1)]
        return cls(build([*moves, *[("launch", 4)] * 615], steps=8))


@pytest.mark.slow
def test_thirty_what_ifs_per_second() -> None:
    made = Big.build().made
    kinds = ("device", "d2h")
    began = time.process_time()
    for interval in range(2, 17):
        time_of(made, Edit("interval-sync", kinds[:1], interval=interval))
        time_of(
            made, Edit("interval-sync", kinds[:1], interval=interval), Edit("defer-read", kinds[1:], interval=interval)
        )
    assert time.process_time() - began < 1.0
