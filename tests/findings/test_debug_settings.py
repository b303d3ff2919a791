"""Settings for debugging make every time meaningless: they are the first thing that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import run_cases
from tracelens import lever_trials, pipeline
from tracelens import run as runs
from tracelens.findings import debug_settings
from tracelens.fixing import choice
from tracelens.model import Location
from tracelens.schemes import rules


def environment(**variables: str) -> dict[str, Any]:
    return {"variables": variables}


@pytest.mark.parametrize(
    ("known", "detector"),
    [
        (environment(CUDA_LAUNCH_BLOCKING="1"), "launch-blocking"),
        (environment() | {"anomaly_detection": True}, "anomaly-detection"),
        (environment(CUDA_LAUNCH_BLOCKING="0") | {"anomaly_detection": False}, None),
        (environment(CUDA_LAUNCH_BLOCKING=""), None),
        (environment(), None),
        ({}, None),
    ],
)
def test_a_setting_is_named_only_where_it_was_on(known: dict[str, Any], detector: str | None, tmp_path: Path) -> None:
    run = runs.read(run_cases.recorded(tmp_path, environment=known))
    found = debug_settings.unjudged(run)
    assert (found.detector if found else None) == detector
    assert debug_settings.unjudged(None) is None


def test_it_is_the_headline_and_the_verdict_and_nothing_is_recommended(tmp_path: Path) -> None:
    folder = run_cases.recorded(tmp_path, environment=environment(CUDA_LAUNCH_BLOCKING="1"))
    examined = pipeline.examine(pipeline.open_inputs((folder,)))
    planned = pipeline.plan(examined)
    assert examined.diagnosis.headline == planned.headline == "Not judged: CUDA_LAUNCH_BLOCKING was set"
    assert planned.recommendation.scheme is None
    assert planned.recommendation.verdict.startswith("Nothing can be judged: CUDA_LAUNCH_BLOCKING=1 was set")


def test_the_lever_that_ends_it_is_the_only_one_that_is_tried_and_fixed(tmp_path: Path) -> None:
    place = {"path": "helpers.py", "line": 2}
    known = environment() | {"anomaly_detection": True, "anomaly_places": [place]}
    folder = run_cases.recorded(tmp_path, environment=known)
    (tmp_path / "helpers.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)\n")
    planned = pipeline.plan(pipeline.examine(pipeline.open_inputs((folder,))))
    assert planned.recommendation.lever == "anomaly-off"
    lever = next(one for one in planned.levers if one.id == "anomaly-off")
    assert (lever.state, lever.command) == ("not_tried", "fix anomaly-off")
    assert lever.locations == (Location("helpers.py", 2),)
    assert b"set_detect_anomaly(False)" in planned.patches["anomaly-off"].files[0].after
    trials = lever_trials.plan(planned, rules.load().levers, ())
    assert [trial.id for trial in trials.trials] == ["anomaly-off"]
    assert choice.possible(planned, trials) == ("anomaly-off",)
    assert len(lever_trials.plan(planned, rules.load().levers, ("all",)).trials) > 3, "what is asked for is tried"
    assert set(planned.patches) == {"anomaly-off"}, "no other patch is made: what each would bring is not known"


def test_with_one_on_nothing_is_replayed_and_that_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays take most of the time of examining a recording, and what they say would be of another training."""
    folder = run_cases.recorded(tmp_path, environment=environment() | {"anomaly_detection": True})
    monkeypatch.setattr(pipeline.trace_builder, "build", lambda *_: pytest.fail("replayed"))
    diagnosis = pipeline.plan(pipeline.examine(pipeline.open_inputs((folder,))))
    assert all(owner.recoverable_ns is None for owner in diagnosis.owners.owners)
    assert [one.detector for one in diagnosis.abstentions].count("anomaly-detection") == 1


@pytest.mark.parametrize(
    ("known", "lever"),
    [(environment(CUDA_LAUNCH_BLOCKING="1"), "launch-blocking"), ({"anomaly_detection": True}, "anomaly-off")],
)
def test_what_no_patch_can_write_is_said_instead_of_an_owner(known: dict[str, Any], lever: str, tmp_path: Path) -> None:
    """An older recording does not name the line, and a variable of the environment is in no line."""
    planned = pipeline.plan(pipeline.examine(pipeline.open_inputs((run_cases.recorded(tmp_path, environment=known),))))
    assert planned.recommendation.lever is None
    found = lever_trials.plan(planned, rules.load().levers, ())
    assert [trial.id for trial in found.trials] == [lever]
    assert choice.possible(planned, found) == ()
    unfixed = choice.without_change(planned, rules.load().levers)
    assert not unfixed.fine and unfixed.try_next == lever
    assert "no time means anything. Switch it off" in unfixed.reason
