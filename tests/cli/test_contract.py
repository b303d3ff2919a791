"""The command line as an examiner reads it: every command names the next one, and what it names works as it stands."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import report_cases
from tests.support import run_cases as cases
from tracelens import pipeline
from tracelens.cli import main, output, verify
from tracelens.model import Ratio, Verification
from tracelens.report import next_commands
from tracelens.verify import result
from tracelens.verify.policy import POLICY

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder with a space in its name, with one Run in it, and we are there."""
    folder = tmp_path / "my project"
    folder.mkdir()
    cases.recorded(folder)
    monkeypatch.chdir(folder)
    return folder


def said(capsys: Capture) -> str:
    streams = capsys.readouterr()
    return streams.out + streams.err


def next_line(text: str) -> list[str]:
    return shlex.split([line for line in text.splitlines() if line.startswith("next: ")][-1].removeprefix("next: "))


@pytest.mark.slow
def test_verify_names_the_next_command_where_there_is_nothing_to_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    cases.recorded(tmp_path)
    run = next((tmp_path / "tracelens-runs").iterdir())
    cases.trace(run / "rank0" / "made.pt.trace.json.gz", kernels=2000, steps=3)  # GPU-bound: nothing pays
    monkeypatch.chdir(tmp_path)
    assert main(["verify", str(run)]) == 0
    shown = said(capsys)
    assert "Nothing to verify." in shown
    assert next_line(shown) == ["tracelens", "try", f"{run}/", "bf16", "compile"]
    assert main(["verify", str(run), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == []


def test_verify_asks_for_no_fewer_steps_than_it_takes(project: Path, capsys: Capture) -> None:
    assert POLICY.least_steps == verify.FEWEST_STEPS
    assert main(["verify", "--steps", str(verify.FEWEST_STEPS - 1)]) == 2
    assert "20" in said(capsys)


@pytest.mark.slow
def test_a_run_that_was_found_is_named_from_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    inner = tmp_path / "sub"
    inner.mkdir()
    run = next((cases.recorded(inner)).parent.iterdir())
    (tmp_path / "tracelens-runs").mkdir()
    moved = tmp_path / "tracelens-runs" / run.name
    run.rename(moved)
    meta = json.loads((moved / "run.json").read_text())
    (moved / "run.json").write_text(json.dumps({**meta, "cwd": "../../sub"}))
    monkeypatch.chdir(tmp_path)
    for command in ("analyze", "recommend", "report"):
        assert main([command]) == 0
        words = next_line(said(capsys))
        assert words[2] == f"tracelens-runs/{run.name}/"


def test_the_record_names_the_run_to_revert_as_the_user_does(project: Path, capsys: Capture) -> None:
    run = next((project / "tracelens-runs").iterdir())
    os.chdir(project.parent)
    named = str(run.relative_to(project.parent))
    quoted = shlex.quote(f"{named}/")
    assert main(["report", named, "--format", "markdown", "-o", "-", "--interval", "5"]) == 0
    lines = [line for line in said(capsys).splitlines() if line.startswith("tracelens ")]
    assert f"tracelens revert {quoted}" in lines
    assert f"tracelens apply {quoted} --interval 5 --lever event-sync" in lines


def trial(outcome: str) -> Verification:
    details = {"steps": 200, "budget_s": 600.0}
    return Verification("event-interval", outcome, True, None, None, None, None, "said", details)  # type: ignore[arg-type]


def test_the_next_command_depends_on_what_was_measured_and_applied() -> None:
    fresh = replace(report_cases.recommended(), verifications=())
    assert fresh.recommendation is not None and fresh.recommendation.scheme == "event-interval"
    typed = ("my run/", "--interval", "10")
    words = "'my run/' --interval 10"
    assert next_commands.next_command(fresh, typed) == f"tracelens fix {words}"
    short = replace(fresh, verifications=(trial("inconclusive"),))
    assert next_commands.next_command(short, typed) == f"tracelens verify {words} --budget 1200s"
    unsure = replace(fresh, verifications=(replace(trial("inconclusive"), ratio=Ratio(1.0, 0.9, 1.1)),))
    assert next_commands.next_command(unsure, typed) == f"tracelens verify {words} --steps 400 --budget 1200s"
    measured = replace(fresh, verifications=(trial("faster"),))
    assert next_commands.next_command(measured, typed) == f"tracelens apply {words}"
    there = replace(measured, applied="event-interval")
    assert next_commands.next_command(there, typed).startswith("tracelens profile ")
    wrong = replace(there, verifications=(trial("different numbers"),))
    assert next_commands.next_command(wrong, typed) == "tracelens revert 'my run/'"
    assert "Measure it again" in next_commands.patch_commands(measured)[0][0]


def test_a_larger_budget_is_never_less_than_was_said_to_be_needed() -> None:
    short = replace(trial("inconclusive"), details={"steps": 200, "budget_s": 120.0, "needed_s": 270})
    assert next_commands.longer(short) == ("--budget", "270s")
    assert next_commands.longer(replace(short, details={**short.details, "needed_s": 150})) == ("--budget", "240s")


def test_after_a_trial_that_decided_nothing_the_options_typed_stay() -> None:
    effort = verify.Effort(steps=50, budget=120.0, seed=3)
    short = replace(trial("inconclusive"), details={"steps": 50, "budget_s": 120.0, "needed_s": 270})
    words = verify._again(("run", "--interval", "5"), "event-sync", effort, short)
    assert words == "tracelens verify run --interval 5 --lever event-sync --steps 50 --budget 270s --seed 3"
    unsure = replace(short, ratio=Ratio(1.0, 0.9, 1.1))
    assert "--steps 100 --budget 270s" in verify._again(("run",), None, effort, unsure)


def test_after_two_scripts_their_own_options_stay_theirs() -> None:
    """`--steps 5` after `--` is the script's; without the two dashes it would be taken for ours."""
    words = ("a.py", "b c.py", "--steps", "5")
    assert verify._after_scripts(words, trial("different numbers")) == "tracelens verify a.py 'b c.py' -- --steps 5"
    longer = "tracelens verify --budget 1200s a.py 'b c.py' -- --steps 5"
    assert verify._after_scripts(words, trial("inconclusive")) == longer
    assert verify._after_scripts(words, trial("faster")) == "tracelens profile 'b c.py' --steps 5"
    assert verify._after_scripts(words[:2], trial("failed")) == "tracelens verify a.py 'b c.py'"


def test_commands_of_a_page_keep_the_interval_that_the_page_is_about() -> None:
    page = replace(report_cases.recommended(), interval=5)
    assert "--interval 5" in next_commands.patch_commands(page)[0][1]
    assert "--interval" not in next_commands.patch_commands(page)[2][1], "revert has no such option"
    assert "--interval" not in next_commands.patch_commands(replace(page, interval=10))[0][1]


@pytest.mark.programs
def test_a_minus_stays_a_minus_where_the_terminal_knows_only_ascii(project: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "tracelens", "recommend"], capture_output=True, env=environment, check=True, cwd=project
    )
    shown = done.stdout.decode("ascii")
    assert "?" not in shown.replace("?)", ""), shown
    assert output._spelled("−1.0 % → µs", "ascii") == "-1.0 % -> us"
    assert output._spelled("−1.0 % → µs", "utf-8") == "−1.0 % → µs"
    assert output._spelled("µ – →", "latin-1") == "µ - ->"


@pytest.mark.programs
def test_profile_names_the_next_command_where_nothing_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no torch.py").write_text("print('hello')\n")
    words = [sys.executable, "-m", "tracelens", "profile", "no torch.py"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and "hello" in done.stdout
    assert "not complete" in done.stderr and next_line(done.stderr) == ["tracelens", "doctor"]


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
def test_a_script_that_fails_is_mended_first_and_one_that_ends_early_is_recorded_again(tmp_path: Path) -> None:
    """A doctor for the machine helps neither; and nothing was recorded in a folder that is named all the same."""
    loop = "import torch\nw = torch.ones(1, requires_grad=True)\no = torch.optim.SGD([w], lr=0.1)\n"
    loop += "for i in range(3):\n    o.zero_grad(); (2 * w).sum().backward(); o.step()\n"
    (tmp_path / "short.py").write_text(loop)
    (tmp_path / "fails.py").write_text("raise RuntimeError('data is broken')\n")
    for given, code, after in (
        (["-o", "runs a", "--steps", "3", "short.py"], 0, ["--steps", "3", "short.py"]),
        (["fails.py", "--lr", "1"], 1, ["fails.py", "--lr", "1"]),
    ):
        words = [sys.executable, "-m", "tracelens", "profile", *given]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == code
        assert "recorded in" not in done.stderr and "run folder: " in done.stderr, done.stderr
        if code:
            assert "is the next thing to mend" in done.stderr and "next: " not in done.stderr
            assert shlex.split(done.stderr.splitlines()[-1]) == ["tracelens", "profile", *after]
        else:
            assert next_line(done.stderr) == ["tracelens", "profile", *after]


@pytest.mark.parametrize(("found", "kept"), [("cpu", False), ("NVIDIA H200", True), (None, True)])
def test_a_prediction_for_one_device_is_not_held_against_another(found: str | None, kept: bool) -> None:
    predicted = object()
    measured: Any = SimpleNamespace(
        change=SimpleNamespace(predicted=predicted),
        request=SimpleNamespace(device="NVIDIA H200"),
        originals=(SimpleNamespace(ranks=[{"device": found}]),),
        mask=None,
        refused=(),
        touched=(),
        windows=(None, None),
    )
    assert (result._predicted(measured) is predicted) == kept
    assert ["recorded on NVIDIA H200" in note for note in result._notes(measured)] == ([] if kept else [True])


@pytest.mark.slow
def test_a_trial_on_another_device_is_named_and_set_aside(project: Path, capsys: Capture) -> None:
    from tracelens.verify import store

    run = next((project / "tracelens-runs").iterdir())
    device = pipeline.open_inputs((run,)).traces[0].device
    assert device is not None, "the recorded loop ran on a GPU"
    ratio = Ratio(0.5, 0.4, 0.6)
    for place, evidence in (("cpu", {"replayed"}), (device, {"replayed", "measured"})):
        details = {"interval": 10, "environment": {"device": place}}
        found = Verification("event-interval", "faster", True, ratio, 10_000_000, 5_000_000, None, "said", details)
        store.write(run, (found,))
        assert main(["recommend", "--format", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {one["estimate"]["evidence"] for one in document["schemes"] if one["estimate"]} == evidence
        named = [one["missing"] for one in document["abstentions"] if one["detector"] == "verify"]
        assert [f"on cpu, which says nothing about the recorded {device}" in one for one in named] == (
            [True] if place == "cpu" else []
        )


def test_an_empty_script_is_wrong_usage(capsys: Capture) -> None:
    assert main(["profile", ""]) == 2 and "variable not set" in said(capsys)


def test_an_unknown_rule_is_answered_with_every_id_once(capsys: Capture) -> None:
    assert main(["rules", "nonsense"]) == 2
    ids = said(capsys).partition("one of: ")[2].strip().split(", ")
    assert "event-sync" in ids and len(ids) == len(set(ids))
