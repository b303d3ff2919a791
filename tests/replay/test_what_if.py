"""Combinations of changes: each is one replay, and what they give together is not the sum of what they give alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_cases
from tracelens import pipeline
from tracelens.model import Edit, IllustratedDiagnosis
from tracelens.replay import estimate, what_if
from tracelens.replay.replay_trace import ReplayTrace


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReplayTrace, IllustratedDiagnosis]:
    run = run_cases.recorded(Path(tmp_path_factory.mktemp("combine")))
    examined = pipeline.examine(pipeline.open_inputs((run,)))
    assert isinstance(examined.replay_trace, ReplayTrace)
    return examined.replay_trace, pipeline.illustrate(examined, pipeline.plan(examined))


def test_every_combination_is_the_replay_of_its_edits(planned: tuple[ReplayTrace, IllustratedDiagnosis]) -> None:
    replay_trace, diagnosis = planned
    found = diagnosis.what_if
    assert found is not None and len(found.combinations) == 2 ** len(found.changes) - 1
    for one in found.combinations:
        edits = tuple(edit for position in one.chosen for edit in found.changes[position])
        assert one.estimate == estimate.predict(replay_trace, edits)


def test_the_recommended_scheme_is_one_of_the_combinations(planned: tuple[ReplayTrace, IllustratedDiagnosis]) -> None:
    _, diagnosis = planned
    assert diagnosis.what_if is not None
    scheme = next(one for one in diagnosis.schemes if one.id == diagnosis.recommendation.scheme)
    sets = [
        {edit for position in one.chosen for edit in diagnosis.what_if.changes[position]}
        for one in diagnosis.what_if.combinations
    ]
    assert set(scheme.edits) in sets


def test_edits_of_one_wait_are_one_change_and_the_first_scheme_counts() -> None:
    wait = Edit("event-sync", ("s1",)), Edit("interval-sync", ("s1",), interval=10)
    late, soon = Edit("defer-read", ("s2",), interval=10), Edit("defer-read", ("s2",), interval=1)
    copy = Edit("async-copy", ("s3",))
    assert what_if._changes([(*wait, late), (wait[0], soon), (copy,)]) == (wait, (late,), (copy,))


def test_both_pictures_are_one_mean_step_long_and_nothing_leaves_them(
    planned: tuple[ReplayTrace, IllustratedDiagnosis],
) -> None:
    before, after = planned[1].drawn
    assert before.scheme is None and after.scheme is not None and after.length_ns < before.length_ns
    # a loop that runs ahead has steps of different lengths on the host; the window is one of them, not their mean
    for one, spread in ((before, 0.05), (after, 0.2)):
        assert one.bars and all(0 <= bar.start_ns < bar.end_ns <= one.length_ns for bar in one.bars)
        gpu = [bar for bar in one.bars if bar.lane != "host"]
        assert sum(bar.end_ns - bar.start_ns for bar in gpu) == pytest.approx(40 * 50_000, rel=spread)


def test_without_gpu_work_nothing_is_tried(planned: tuple[ReplayTrace, IllustratedDiagnosis]) -> None:
    import dataclasses

    replay_trace, diagnosis = planned
    bare = dataclasses.replace(diagnosis, breakdown=None)
    assert what_if.illustrations(replay_trace, bare) == (None, ())
