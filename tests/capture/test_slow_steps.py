"""Work of every eighth step, recorded in a real process: its line is clocked behind the windows, and what it costs is
told of the mean step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.places import SCRIPTS
from tracelens import pipeline, run
from tracelens.capture.inside import slow_step_watch
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.model import Diagnosis, RankRecording

MS = 1_000_000
SCRIPT = SCRIPTS / "rare_work.py"
PLAN = WindowPlan(unprofiled_steps=64, unprofiled_seconds=0.0, clean=5)
"""settle 3, W0 steps 4 to 67, warm-up 3, W1 steps 71 to 75, W2 steps 76 and 77; every eighth from step 1 on is slow."""


def record(folder: Path, kind: str, steps: int, **plan: Any) -> tuple[RankRecording, Diagnosis]:
    pytest.importorskip("torch")
    words = (str(SCRIPT), kind, str(steps))
    outcome = profile(ProfileOptions("script", words, cwd=folder, plan=PLAN, monitor=False, **plan))
    assert outcome.complete, outcome.reason
    (recording,) = run.read(outcome.folder).recordings
    return recording, pipeline.diagnose(pipeline.open_inputs((outcome.folder,)))


def line_of(kind: str) -> int:
    return next(at for at, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith(f"# rare: {kind}"))


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("kind", ["save", "evaluate"])
def test_the_statement_of_every_eighth_step_is_an_owner_with_its_mean_share(tmp_path: Path, kind: str) -> None:
    recording, told = record(tmp_path, kind, 200, stop_after_window=True)
    number = recording.meta["slow_step"]["number"]
    assert number % 8 == 1 and number > 77 and recording.slow_lines is not None
    assert [step.number for step in recording.slow_lines.steps] == [number - 1, number]
    slow, owner = told.owners.slow, told.owners.of_slow_steps[0]
    assert slow is not None and slow.every == 8
    assert [(place.line, place.function) for place in owner.locations] == [(line_of(kind), "train")]
    assert owner.recoverable_ns == pytest.approx(slow.per_step_ns, rel=0.2)
    least = {"save": 120, "evaluate": 12 * 8}[kind] * MS / 8
    # A sleep lasts longer where the machine is busy, and the median step is longer than the mean of the ordinary ones.
    assert 0.7 * least <= slow.per_step_ns <= 2 * least
    assert f"rare_work.py:{line_of(kind)}" in told.rare_cost and "every 8th step" in told.rare_cost


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_loop_without_such_steps_is_not_waited_for(tmp_path: Path) -> None:
    recording, told = record(tmp_path, "none", 100)
    assert recording.slow_lines is None and told.rare_cost == ""


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_script_that_ends_before_the_slow_step_leaves_a_complete_recording(tmp_path: Path) -> None:
    recording, _told = record(tmp_path, "save", 79)
    assert recording.slow_lines is None and recording.meta["slow_step"] is None
    assert len(recording.clock.profiled_ns) == 5 and recording.attributed_steps == (76, 77)


# ------------------------------------------------------------------------------------------------------ when it waits


def lengths(steps: int, every: int) -> list[int]:
    return [MS * (50 if step % every == 7 else 10) for step in range(steps)]


def test_the_clock_begins_a_step_before_the_one_that_is_due() -> None:
    watch = slow_step_watch.planned(lengths(200, 20), first=4, number=220, seconds=15.0)
    assert watch is not None  # W0's positions 7, 27, …: numbers 11, 31, …, 231
    assert (watch._from, watch._last) == (230, 251)


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        (lengths(200, 20), 0.05),  # too far away
        ([10 * MS] * 200, 15.0),
        ([MS * (50 if step in (7, 30, 41, 99) else 10) for step in range(200)], 15.0),  # at no period
        ([MS * (50 if step == 100 else 1) for step in range(200)], 15.0),  # seen once
    ],
)
def test_nothing_is_waited_for(steps: list[int], seconds: float) -> None:
    assert slow_step_watch.planned(steps, first=4, number=220, seconds=seconds) is None
