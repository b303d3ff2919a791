"""What `verify` sends its user to next: never to more of what has just been measured to be wrong."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support import run_cases as cases
from tracelens import trials
from tracelens.cli import main
from tracelens.model import Ratio, Verification

Capture = pytest.CaptureFixture[str]
OUTCOMES = ["different numbers", "failed", "slower", "faster"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return next(Path("tracelens-runs").iterdir())


def next_line(capsys: Capture) -> list[str]:
    streams = capsys.readouterr()
    lines = [line for line in (streams.out + streams.err).splitlines() if line.startswith("next: ")]
    return shlex.split(lines[-1].removeprefix("next: tracelens "))


def found(scheme: str | None, outcome: str) -> Verification:
    ratio = Ratio(1.2, 1.1, 1.3) if outcome == "slower" else Ratio(0.8, 0.7, 0.9)
    details: dict[str, Any] = {"interval": 10, "windows": {"before": None, "after": None}, "notes": []}
    said = "Different results: backward 3: 1.0 in the original, 2.0 in the patched version."
    return Verification(scheme, outcome, outcome == "faster", ratio, 10_000, 8_000, None, said, details)  # type: ignore[arg-type]


def measured(monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    def of_schemes(diagnosis: Any, names: tuple[str, ...], _: Any) -> tuple[Verification, ...]:
        from tracelens.verify import store

        entries = tuple(found(name, outcome) for name in names)
        store.write(diagnosis.run.path, entries)
        return entries

    monkeypatch.setattr(trials, "verify_schemes", of_schemes)
    monkeypatch.setattr(trials, "verify_scripts", lambda *_: (found(None, outcome),))


@pytest.mark.slow
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_applied_patch_that_was_measured_to_be_wrong_or_slower_is_taken_back(
    outcome: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(["apply", str(run), "--scheme", "event-interval"]) == 0
    before = next_line(capsys)
    assert before[0] == "verify"
    measured(monkeypatch, outcome)
    main(before)
    after = next_line(capsys)
    if outcome == "faster":
        assert after == ["report", f"{run}/"]
        return
    assert after == ["revert", f"{run}/"]
    assert main(["report", str(run), "-o", "page.html"]) == 0
    assert next_line(capsys) == ["revert", f"{run}/"], "recording again would record the broken script"
    assert main(after) == 0
    assert main(["report", str(run), "-o", "page.html"]) == 0
    then = next_line(capsys)
    assert then[0] in ("profile", "fix") and "event-interval" not in then, "the original stands: another scheme, or no"


def test_a_patch_that_is_not_applied_needs_no_revert(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    measured(monkeypatch, "different numbers")
    assert main(["verify", str(run), "--scheme", "event-interval"]) == 1
    assert next_line(capsys) == ["report", f"{run}/"]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_script_with_other_numbers_is_mended_and_compared_again(
    outcome: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    measured(monkeypatch, outcome)
    main(["verify", "a.py", "my b.py", "--lr", "2"])
    wrong = outcome in ("different numbers", "failed")
    after = next_line(capsys)
    again = ["verify", "a.py", "my b.py", "--", "--lr", "2"]
    assert after == (again if wrong else ["profile", "my b.py", "--lr", "2"])
