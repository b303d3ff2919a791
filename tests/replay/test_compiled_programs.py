"""What makes the replay quick changes no answer: pieces compiled once, host work merged, queues forgotten, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import Machine
from tests.support.op_blocks import columns_of
from tests.support.random_loops import MOVES, QUICK, Move, build, play, stalls
from tracelens.model import Edit
from tracelens.replay import baseline, edit_sites, edits, estimate, simulate, trace_builder
from tracelens.replay.merged_launches import merged, merged_blocks
from tracelens.replay.program import Program, compile_program
from tracelens.replay.replay_trace import HostOp, LoaderPace, RecordedStep, ReplayTrace, StepVariant, UntouchedSpan
from tracelens.replay.steady_state import step_time
from tracelens.trace import timeline

READ, COPY = "d2h", "h2d"
CHANGES: tuple[tuple[Edit, ...], ...] = (
    (Edit("defer-read", (READ,)),),
    (Edit("defer-read", (READ,), interval=3), Edit("interval-sync", ("device",), interval=3)),
    (Edit("event-sync", ("device",)), Edit("interval-sync", ("device",), interval=2)),
    (Edit("async-copy", (COPY,)),),
    (Edit("async-copy", (COPY,)), Edit("prefetch", (COPY,), depth=2), Edit("thin-logs", (READ,), interval=4)),
    (Edit("async-copy", (COPY,)), Edit("prefetch", (COPY,)), Edit("more-workers", workers=8)),
)


def spread(step: StepVariant) -> Iterator[RecordedStep]:
    """A step without its Stretches."""
    for element in step:
        yield from element.elements if isinstance(element, UntouchedSpan) else (element,)


def uncut(program: Program) -> Program:
    return replace(program, variants=tuple(tuple(spread(step)) for step in program.variants))


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12), st.sampled_from(CHANGES), st.sampled_from((0, 4, None)))
@QUICK
def test_pieces_that_no_edit_touches_compile_to_what_they_do_in_one_go(
    moves: list[Move], changes: tuple[Edit, ...], workers: int | None
) -> None:
    made = build([("load", 700), *moves, ("h2d", 90), *[("launch", 9.0)] * 3, ("sync", 0), *moves, ("item", 0)])
    made = replace(made, loader=LoaderPace(workers))
    program = edits.apply(made, changes)
    assert any(isinstance(element, UntouchedSpan) for step in program.variants for element in step)
    for row_ns in (0.0, 900.0):
        assert compile_program(program, row_ns).ops == compile_program(uncut(program), row_ns).ops


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12), st.sampled_from(CHANGES))
@QUICK
def test_host_work_that_goes_with_the_op_before_it_takes_the_same_time(
    moves: list[Move], changes: tuple[Edit, ...]
) -> None:
    made = build([("load", 700), *moves, ("h2d", 90), ("item", 0)])
    program = edits.apply(made, changes)
    whole, single = (step_time(compile_program(program, 900.0, merge=merge)) for merge in (True, False))
    assert whole == single


@pytest.mark.slow
@given(st.lists(MOVES, min_size=1, max_size=12), st.sampled_from(((), *CHANGES)))
@QUICK
def test_launches_of_a_stream_that_is_done_may_be_forgotten(moves: list[Move], changes: tuple[Edit, ...]) -> None:
    """With a queue so short that it is often full."""
    made = build([*[("launch", 70.0)] * 6, *moves, *[("launch", 30.0)] * 6])
    program = replace(edits.apply(made, changes), queue_limit=4)
    compiled = compile_program(program, 0.0, merge=False)
    quick = step_time(compiled)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulate.Simulator, "_clear_finished_queues", lambda _: None)
        assert step_time(compiled) == quick


PLAIN = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(("launch", "launch", "work")),
        "gap_ns": st.integers(0, 90_000),
        "issue_ns": st.integers(0, 9_000),
        "rows": st.integers(0, 40),
        "stream": st.integers(0, 2),
        "duration_ns": st.integers(0, 80_000),
        "latency_ns": st.integers(0, 20_000),
        "spacing_ns": st.integers(0, 5_000),
        "detached": st.booleans(),
    }
).map(lambda fields: HostOp(**fields))


@given(st.lists(st.lists(PLAIN, min_size=1, max_size=80), max_size=4), st.sampled_from((0.0, 333.3, 900.0)))
@QUICK
def test_columns_are_merged_to_what_their_host_ops_are(blocks: list[list[HostOp]], row_ns: float) -> None:
    columns = columns_of([op for block in blocks for op in block], np.cumsum([0, *map(len, blocks)]).tolist())
    nameless = [tuple(one._replace(host_op=HostOp("work")) for one in merged(tuple(block), row_ns)) for block in blocks]
    assert list(merged_blocks(columns, row_ns)) == nameless


def test_the_first_part_of_a_cut_takes_what_an_edit_adds_to_the_beginning() -> None:
    made = build([("launch", 40), ("launch", 40), ("h2d", 90), ("launch", 40), ("launch", 40)])
    plan = edit_sites.plan(made, (Edit("async-copy", (COPY,)),))
    parts = edit_sites.split(made.steps[0], plan).parts
    assert isinstance(parts[0], tuple)
    assert not isinstance(parts[0], UntouchedSpan)
    touched = [one.op.kind for part in parts if not isinstance(part, UntouchedSpan) for one in part if one.rules]
    assert touched == ["staged"]


def test_what_was_asked_is_not_replayed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build([("launch", 300), ("item", 0), ("host", 50)])
    passes = []
    run = simulate.Simulator.run_steps
    monkeypatch.setattr(simulate.Simulator, "run_steps", lambda *words: (passes.append(1), run(*words))[1])
    first = estimate.predict(made, CHANGES[0])
    asked = len(passes)
    assert estimate.predict(made, CHANGES[0]) == first
    assert len(passes) == asked
    estimate.predict(made, CHANGES[1])
    other = len(passes) - asked
    assert 0 < other < asked, "the unchanged loop was replayed for the first answer"
    again = estimate.predict(replace(made, notes=("another replay trace",)), CHANGES[0])
    assert len(passes) > asked + other, "another Tape is another question"
    assert replace(again, assumptions=()) == replace(first, assumptions=())


@pytest.mark.slow
def test_a_loop_that_reads_a_value_for_each_of_its_weights_is_planned_in_seconds() -> None:
    """160 tensors are clipped one by one, two reads each: pieces of a step must not be compiled anew in each draw."""
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            machine.synchronize()
            for _ in range(160):
                play(machine, [("launch", 3), ("item", 0), ("launch", 2), ("launch", 2), ("item", 0), ("launch", 3)])
            machine.synchronize()
    picture = timeline.build(machine.trace())
    made = trace_builder.build(picture, stalls(picture))
    assert isinstance(made, ReplayTrace), made
    change = edits.PreparedEdits(made, (Edit("interval-sync", ("device",), interval=2),))
    programs = [change.program(draw.costs) for draw in baseline.samples(made)[:3]]
    rewritten = [sum(isinstance(one, HostOp) for step in program.variants for one in step) for program in programs]
    assert max(rewritten) < 0.02 * sum(map(len, made.steps)) * 2, "only what lies beside the synchronizes"
