"""Settings for debugging make every time meaningless: they are the first thing that is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import run_cases
from tracelens import pipeline
from tracelens import run as runs
from tracelens.findings import debug_settings


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
