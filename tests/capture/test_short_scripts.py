"""Scripts of few steps: recorded where it can be, otherwise told how many steps there were and what helps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import SCRIPTS
from tests.support.recording import FORMS, LIVE, yields_of
from tracelens.capture.inside import recording_limits
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.cli import main
from tracelens.errors import UsageError
from tracelens.run import read as read_run


def test_what_helps_a_script_that_was_too_short_is_said() -> None:
    plan = WindowPlan().with_unknown_length()
    assert plan.most_steps() == 170
    for steps, words in ((60, "--steps 3, or let it make 170 steps"), (20, "let it make 170 steps (or 21, with")):
        assert words in plan.advice(steps, "--steps ")
    fewer = replace(WindowPlan(), clean=3).with_unknown_length()
    assert fewer.most_steps() <= 60
    assert fewer.unprofiled_enough(fewer.unprofiled_most_steps, 0.001)
    assert WindowPlan().fitted(1).advice(3, "--steps ").endswith("at least 4 steps")
    assert not WindowPlan().fitted(1000).advice(500, "--steps ")


@pytest.mark.programs
def test_a_plain_loop_over_a_loader_of_sixty_batches_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(PRELUDE + FORMS.replace("(row for row in rows)", "loader"))
    outcome = profile(ProfileOptions("script", ("short.py", "60"), cwd=tmp_path, monitor=False))
    assert (outcome.complete, outcome.reason) == (True, None)
    (recording,) = read_run(outcome.folder).recordings
    assert len(recording.clock.profiled_ns) == 12


def test_a_short_pass_that_only_reads_is_not_recorded_in_the_trainings_place() -> None:
    plans = []
    loaders = SimpleNamespace(live=lambda: LIVE[:1])
    for source in ("dataloader", "optimizer"):
        told: Any = SimpleNamespace(source=source, plan=WindowPlan(), notes=[], loaders=loaders)
        LIVE.clear()
        length = recording_limits.RemainingSteps()
        loop = yields_of("for x, y in DataLoader(rows):\n    yield frame()")
        for frame, _ in zip(loop, range(2), strict=False):
            length.look(told, frame)
        plans.append((told.plan.open_ended, told.plan.shrunk))
    assert plans == [(True, False), (False, True)]


@pytest.mark.programs
def test_a_script_that_was_too_short_says_how_many_steps_there_were(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text(
        PRELUDE + FORMS.replace("in rows", "in [(torch.ones(8), torch.ones(1))] * steps")
    )
    plan = WindowPlan(unprofiled_seconds=1e6)  # however slow this machine is
    outcome = profile(ProfileOptions("script", ("short.py", "60"), cwd=tmp_path, monitor=False, plan=plan))
    assert (outcome.reason or "").startswith("the script ended before the recording was complete, after 60 steps")
    assert "--steps 3, or let it make 170 steps" in (outcome.reason or "")


# ------------------------------------------------------------------------------------------------------ from inside


def test_what_is_no_number_of_steps_or_batches_is_refused(tmp_path: Path) -> None:
    import tracelens

    for wrong in ({"steps": 0}, {"steps": 2.5}, {"steps": "3"}, {"interval": 0}, {"interval": -3}, {"interval": 1.5}):
        with pytest.raises(UsageError, match=r"(steps|interval) is"):
            tracelens.profile(tmp_path / "run", **wrong)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------- what is asked for


@pytest.mark.parametrize("given", ["0-", "4-", "0,2-"])
def test_a_span_of_ranks_without_an_end_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", f"--ranks={given}", "train.py"]) == 2
    assert "no list of ranks" in capsys.readouterr().err


@pytest.mark.programs
def test_a_rank_that_does_not_exist_is_not_called_a_script_without_steps(tmp_path: Path) -> None:
    words = (str(SCRIPTS / "plain.py"), "8")
    outcome = profile(ProfileOptions("script", words, cwd=tmp_path, monitor=False, ranks=(5, 6)))
    assert outcome.reason == "no rank that was asked for (5, 6) made a training step"
