"""`verify --all`: each scheme that can be patched is tried, and what is measured replaces what was estimated."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.places import ROOT
from tracelens import pipeline, trials
from tracelens.cli import main
from tracelens.cli.verify import _document
from tracelens.lever_names import named
from tracelens.model import Ratio, Recommendation, Verification
from tracelens.verify.policy import POLICY
from tracelens.verify.supervisor import session as verifying

SAMPLE = ROOT / "sample_traces" / "sync_every_batch"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recorded Run of which nothing is verified."""
    shutil.copytree(SAMPLE, tmp_path / "case")
    (tmp_path / "case" / "run" / "verify.json").unlink()
    return tmp_path / "case" / "run"


def planned(folder: Path) -> Any:
    return pipeline.plan(pipeline.examine(pipeline.open_inputs((folder,))))


class Measured:
    """Stands in for the runs of a verification: gives each patch the ratio that was agreed on."""

    def __init__(self, ratios: dict[str, float]) -> None:
        self.ratios = ratios
        self.tried: list[str] = []

    def __call__(self, request: Any, changes: tuple[Any, ...]) -> tuple[Verification, ...]:
        self.tried = [change.name for change in changes]
        return tuple(self._one(change) for change in changes)

    def _one(self, change: Any) -> Verification:
        value = self.ratios[change.name]
        base, outcome = 20_000_000, "faster" if value < 1 else "slower"
        ratio = Ratio(value, value - 0.01, value + 0.01)
        details = {"interval": change.interval, "windows": {"before": None, "after": None}, "notes": []}
        return Verification(
            change.scheme, outcome, True, ratio, base, round(base * value), change.predicted, f"{outcome}.", details
        )


@pytest.mark.slow
def test_measured_gains_replace_the_estimates_and_decide_the_recommendation(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = planned(folder)
    patched = [name for name, patch in before.patches.items() if not patch.empty]
    names = [scheme.id for scheme in before.schemes if scheme.id in patched]
    assert len(names) >= 3
    assert {before_scheme(before, name).estimate.evidence for name in names} == {"replayed"}
    slow, best = before.recommendation.scheme, next(name for name in names if name != before.recommendation.scheme)
    fake = Measured(dict.fromkeys(patched, 0.9) | {slow: 1.05, best: 0.6})
    monkeypatch.setattr(verifying, "verify_all", fake)
    assert main(["verify", str(folder), "--all"]) == 1, "one of them is slower"
    shown = capsys.readouterr().out
    assert shown.count("faster.") == len(patched) - 1
    assert f"With these measurements: train.py:83, 84: {named(best, 10)} saves" in " ".join(shown.split())

    after = planned(folder)
    assert after.recommendation.scheme == best
    for name in names:
        scheme = before_scheme(after, name)
        assert scheme.estimate.evidence == "measured", name
        assert scheme.applicable is (name != slow)
        assert ("performance" in scheme.scores) == scheme.applicable, "what is rejected has no score"
    speedups = [{name: round(it.speedup, 5) for name, it in plan.replayed.items()} for plan in (before, after)]
    assert speedups[0] == speedups[1], "predictions are graded, not replaced"
    untried = [scheme for scheme in after.schemes if scheme.id not in names]
    assert not any(score.evidence == "measured" for scheme in untried for score in scheme.scores.values())


def before_scheme(diagnosis: Any, name: str) -> Any:
    return next(scheme for scheme in diagnosis.schemes if scheme.id == name)


def test_the_document_of_all_says_what_is_recommended_now() -> None:
    ranked = SimpleNamespace(recommendation=Recommendation("event-sync", "take it"))
    assert _document((), ranked)["recommendation"] == {"scheme": "event-sync", "verdict": "take it"}
    assert "recommendation" not in _document((), None)


@pytest.mark.slow
def test_schemes_with_the_same_patch_are_one_trial(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosis = planned(folder)
    first, second, *_ = [name for name, patch in diagnosis.patches.items() if not patch.empty]
    patches = {**diagnosis.patches, second: diagnosis.patches[first]}
    fake = Measured({first: 0.7, second: 0.1})
    monkeypatch.setattr(verifying, "verify_all", fake)
    trial = trials.TrialOptions(200, 60.0, 0, lambda _: None)
    measured = trials.verify_schemes(replace(diagnosis, patches=patches), (first, second), trial)
    assert fake.tried == [first]
    assert [(one.scheme, one.ratio.value) for one in measured] == [(first, 0.7), (second, 0.7)]
    assert f"its patch is that of {first}" in measured[1].details["notes"][0]


def test_two_scripts_have_no_schemes_to_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "a.py", "b.py", "--all"]) == 2
    assert "leave --all out" in capsys.readouterr().err


def recorded(window: dict[str, Any]) -> Any:
    recording = SimpleNamespace(meta={"window": window})
    run = SimpleNamespace(recordings=[recording], meta={"capture": {"started_unix_ns": 1_000_000_000_000}})
    return SimpleNamespace(run=run, steps=SimpleNamespace(best_known_ns=500_000_000))


def test_what_a_process_takes_before_its_steps_holds_nothing_of_the_profiler() -> None:
    window = {"first_step": 27, "start_unix_ns": 1_040_000_000_000}
    assert trials.start_seconds(recorded(window)) == pytest.approx(40 - 13.5), "an older recording"
    window["settled_unix_ns"] = 1_012_000_000_000
    assert trials.start_seconds(recorded(window)) == pytest.approx(12)
    assert trials.start_seconds(recorded({})) == POLICY.start_seconds
