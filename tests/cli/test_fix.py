"""`tracelens fix` without processes: what is asked and written, how it ends, and what is said before anything runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import run_cases as cases
from tests.support.schemas import SCHEMA
from tracelens import chosen_patches, remedies
from tracelens.capture.supervisor import recording
from tracelens.cli import fix, main, question
from tracelens.cli.planning import PlanOptions, pipeline_options, planned
from tracelens.fixing import choice
from tracelens.model import Edit, Location, Outcome, Ratio, Speedup, Verification
from tracelens.verify import equality
from tracelens.verify.lever_trial import LeverMeasurement, LeverRequest, LeverTrial
from tracelens.verify.request import PatchedVersion, VerificationRequest
from tracelens.verify.supervisor import lever_session, session
from tracelens.verify.supervisor.lever_session import LeverSessionResult

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.slow
WORDS = {"faster": 0.5, "slower": 2.0, "no change": 1.0}


class Measuring:
    """Stands for the processes: what `verify` and `try` measure is what the test says."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = ["faster"]
        self.verified: list[tuple[str | None, bytes]] = []
        self.tried: list[str] = []
        self.gains: dict[str, float] = {}
        self.interrupted = False

    def verify_all(self, request: VerificationRequest, changes: tuple[PatchedVersion, ...]) -> tuple[Verification, ...]:
        request.progress("original, first run")
        return tuple(self._verification(request, change) for change in changes)

    def _verification(self, request: VerificationRequest, change: PatchedVersion) -> Verification:
        self.verified.append((change.scheme, change.patch.files[0].after))
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        middle = WORDS.get(outcome, 1.0)
        details = {
            "steps": 200,
            "interval": change.interval,
            "budget_s": request.budget_s,
            "patch": equality.patch_document(change.patch),
            "numbers": {"output_compared": True, "compared": {"settings": 1}, "first_difference": None},
            "environment": {"device": request.device},
        }
        equal = outcome not in ("different numbers", "failed")
        ratio = Ratio(middle, middle * 0.9, middle * 1.1)
        return Verification(
            change.scheme, outcome, equal, ratio, 2_500_000, 1_250_000, None, f"measured: {outcome}.", details
        )

    def try_levers(self, request: LeverRequest, trials: Sequence[LeverTrial], on_result: Any) -> LeverSessionResult:
        self.tried = [trial.id for trial in trials]
        levers = tuple(self._measured(trial) for trial in trials)
        result = LeverSessionResult(levers, None, 2_500_000, {"device": "cpu"}, ("train.py",), self.interrupted, 5.0)
        on_result(result)
        return result

    def _measured(self, trial: LeverTrial) -> LeverMeasurement:
        gain = self.gains[trial.id]
        pairs = ((gain * 10, 10.0),) * 3
        return LeverMeasurement(trial, "measured", None, pairs, Speedup(gain, gain * 0.99, gain * 1.01), "same")


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    made = Measuring()
    monkeypatch.setattr(session, "verify_all", made.verify_all)
    monkeypatch.setattr(lever_session, "try_levers", made.try_levers)
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return next(Path("tracelens-runs").iterdir())


def source() -> str:
    return Path("train.py").read_text()


def test_with_yes_it_is_measured_and_written_and_revert_takes_it_back(
    run: Path, measuring: Measuring, capsys: Capture
) -> None:
    assert main(["fix", str(run), "--yes"]) == 0
    streams = capsys.readouterr()
    said = " ".join(streams.out.split())
    assert said.startswith("Two waits block Python for")
    assert "Faster: 2.5 → 1.2 ms per step, +100 % (95 % sure: +82 to +122 %). Same results, bit for bit." in said
    assert "train.py:" in said and "torch.cuda.synchronize()" in said
    assert "Written: train.py" in said and f"undo: tracelens revert {run}/" in said
    assert "Measuring first, at most 10 min; your files stay as they are." in streams.err
    assert source() != cases.SCRIPT and measuring.verified == [("event-sync", Path("train.py").read_bytes())]
    assert main(["fix", str(run), "--yes"]) == 0
    assert "is in the files already" in capsys.readouterr().out and len(measuring.verified) == 1
    assert main(["fix", str(run), "interval-sync", "--yes"]) == 1
    assert "another patch of this run is in the files" in capsys.readouterr().err
    assert main(["revert", str(run)]) == 0
    assert source() == cases.SCRIPT


def test_without_a_terminal_nothing_is_asked_or_written_and_the_next_command_writes_what_was_measured(
    run: Path, measuring: Measuring, capsys: Capture
) -> None:
    assert main(["fix", str(run)]) == 0
    said = capsys.readouterr().out
    assert fix.NO_TERMINAL in " ".join(said.split()) and source() == cases.SCRIPT
    assert (run / "tracelens.patch").read_text().count("\n-") >= 2
    assert f"next: tracelens apply {run}/ --lever event-sync" in said
    assert main(["fix", str(run), "--no-write", "-q"]) == 0
    assert fix.NOT_WRITTEN in capsys.readouterr().out
    assert len(measuring.verified) == 1, "what was measured of the very same files counts"
    assert main(["apply", str(run), "--lever", "event-sync"]) == 0
    assert source() != cases.SCRIPT


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 1), ("", 1), ("d\nyes\n", 0)])
def test_a_person_is_asked_once_and_anything_but_y_is_no(
    answer: str, code: int, run: Path, measuring: Measuring, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    lines = iter(answer.splitlines(keepends=True))
    monkeypatch.setattr(question, "can_ask", lambda: True)
    monkeypatch.setattr("sys.stdin.readline", lambda: next(lines, ""), raising=False)
    monkeypatch.setattr(fix_card_module(), "SHORT_DIFF", 3)
    assert main(["fix", str(run)]) == code
    said = capsys.readouterr().out
    assert "Put it into train.py? [y/N/d]" in said
    assert (source() != cases.SCRIPT) == (code == 0)
    assert said.count("+++ train.py") == (2 if answer.startswith("d") else 1)
    assert ("Nothing changed. The diff is in" in said) == (code == 1)


def fix_card_module() -> Any:
    from tracelens.report import fix_card

    return fix_card


@pytest.mark.parametrize(
    ("outcome", "code", "word"),
    [
        ("different numbers", 1, "refused"),
        ("inconclusive", 3, "undecided"),
        ("no change", 0, "nothing"),
        ("faster", 0, "not_written"),
    ],
)
def test_how_it_ends_is_its_exit_code_and_in_the_answer_for_programs(
    outcome: Outcome, code: int, word: str, run: Path, measuring: Measuring, capsys: Capture
) -> None:
    measuring.outcomes = [outcome]
    assert main(["fix", str(run), "--format", "json", *(["--yes"] if word != "not_written" else [])]) == code
    answer = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(answer)
    assert answer["fix"]["outcome"] == word and answer["fix"]["levers"] == ["event-sync"]
    assert answer["fix"]["measured"]["outcome"] == outcome
    assert answer["fix"]["next"].startswith("tracelens ")
    assert source() == cases.SCRIPT


def test_two_levers_are_tried_and_the_faster_one_is_verified(
    run: Path, measuring: Measuring, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(choice, "possible", lambda *_: ("event-sync", "interval-sync"))
    measuring.gains = {"event-sync": 1.2, "interval-sync": 1.5}
    assert main(["fix", str(run), "--yes"]) == 0
    assert measuring.tried == ["event-sync", "interval-sync"]
    assert [name for name, _ in measuring.verified] == ["interval-sync"]
    assert main(["revert", str(run)]) == 0
    measuring.gains = {"event-sync": 0.9, "interval-sync": 1.0}
    (run / "try.json").unlink()
    capsys.readouterr()
    assert main(["fix", str(run), "--yes"]) == 0
    assert "No gain with the same results: event-sync, interval-sync measured." in capsys.readouterr().out
    measuring.interrupted = True
    (run / "try.json").unlink()
    assert main(["fix", str(run), "--yes"]) == 130
    assert "Interrupted. Your files are as they were." in capsys.readouterr().err
    assert source() == cases.SCRIPT and (run / "try.json").is_file()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["worker"], 2, "unknown lever: worker. Did you mean workers=N?"),
        (["all"], 2, "fix chooses by itself"),
        (["fp16"], 2, "there is no patch for fp16: no recipe writes it"),
        (["gc-collect"], 2, "no line that takes time in a step calls gc.collect"),
        (["event-sync", "interval-sync"], 2, "no patch makes event-sync and interval-sync at once"),
        (["--yes", "--no-write"], 2, "exclude each other"),
        (["trian.py"], 4, "no such script: trian.py. Did you mean 'train.py'?"),
        (["event-sync", "--", "--epochs", "2"], 2, "a run has the arguments that it was recorded with"),
        (
            ["--no-write", "train.py", "--epochs", "2", "--yes"],
            2,
            "if it is train.py's, it belongs behind --: tracelens fix --no-write --yes train.py -- --epochs 2",
        ),
        (["train.py", "gc-collect", "--lr=a b", "--", "-v"], 2, "tracelens fix train.py gc-collect -- '--lr=a b' -v"),
        (["train.py", "--budgte", "3m"], 2, "`--budgte` is no option of `tracelens fix`. Did you mean '--budget'?"),
        (["--epochs", "2"], 2, "No such option '--epochs'"),
        (["--budget", "5s"], 3, "5 s are too short"),
        (["--budget", "30s"], 3, "left of 30 s are too short to measure this (about 89 s are needed)"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    words: list[str], code: int, said: str, run: Path, measuring: Measuring, capsys: Capture
) -> None:
    assert main(["fix", *words]) == code
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert (measuring.verified, measuring.tried, source()) == ([], [], cases.SCRIPT)
    if code == 3:
        assert "hint: give --budget" in error


def test_of_the_budget_as_much_is_kept_for_the_answer_as_the_first_plan_took(
    run: Path, measuring: Measuring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording of a hundred thousand calls is examined for a minute, before measuring and for the answer after it:
    what is measured has neither."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def slowly(*given: Any, **named: Any) -> Any:
        nonlocal now
        now += 60
        return planned(*given, **named)

    monkeypatch.setattr(fix, "planned", slowly)
    budgets: list[float] = []
    measured = measuring._verification

    def noted(request: VerificationRequest, change: PatchedVersion) -> Verification:
        budgets.append(request.budget_s)
        return measured(request, change)

    monkeypatch.setattr(measuring, "_verification", noted)
    assert main(["fix", str(run), "event-sync", "--yes", "--format", "json", "--budget", "5m"]) == 0
    assert budgets == [300 - 60 - 60] and now == 1120


def test_a_script_that_changed_since_is_not_touched(run: Path, measuring: Measuring, capsys: Capture) -> None:
    Path("train.py").write_text(cases.SCRIPT + "\n# mine\n")
    assert main(["fix", str(run), "--yes"]) == 1
    assert "changed since it was recorded" in capsys.readouterr().err
    assert source() == cases.SCRIPT + "\n# mine\n" and measuring.verified == []


def test_a_loop_that_the_gpu_limits_has_nothing_to_fix(run: Path, measuring: Measuring, capsys: Capture) -> None:
    cases.trace(run / "rank0" / "made.pt.trace.json.gz", kernels=2000, steps=3)
    measuring.gains = {"bf16": 1.0, "compile": 1.0}
    assert main(["fix", str(run)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "nothing to fix in the loop" in said and measuring.verified == []
    assert measuring.tried == ["bf16", "compile"]
    assert "Rounding otherwise, bf16 and torch.compile gained nothing beyond doubt when tried." in said
    assert source() == cases.SCRIPT


def test_what_makes_the_work_of_a_busy_gpu_shorter_is_measured_and_named(
    run: Path, measuring: Measuring, capsys: Capture
) -> None:
    cases.trace(run / "rank0" / "made.pt.trace.json.gz", kernels=2000, steps=3)
    measuring.gains = {"bf16": 2.0, "compile": 1.0}
    assert main(["fix", str(run)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "bf16 made the step 2.00 times as fast when tried" in said
    assert said.endswith(f"next: tracelens fix {run}/ bf16")


def planned_with_calls(lines: dict[str, str]) -> tuple[Any, str]:
    """A run whose loop ends in these calls, each of them with a lever's patch of its own; and the script."""
    text = cases.SCRIPT.replace(
        "            losses.append(loss.item())\n",
        "            losses.append(loss.item())\n" + "".join(f"            {call}\n" for call in lines.values()),
    )
    text = text.replace("import torch\n", "import gc, torch\n", 1)  # the recording names lines by their numbers
    diagnosis = planned((cases.placed(Path.cwd(), text, cases.trace),), PlanOptions())
    numbers = {lever: 1 + text.splitlines().index(f"            {call}") for lever, call in lines.items()}
    edits = {
        lever: (Edit("rare-call", locations=(Location("train.py", number),), interval=100),)
        for lever, number in numbers.items()
    }
    alone = replace(diagnosis, edits_of_levers=edits)
    patches = dict(alone.patches)
    for lever, own in edits.items():
        code = chosen_patches._making(alone, (lever,), pipeline_options(PlanOptions()))
        assert code is not None
        patches[lever] = remedies.change(code.context, code.code, own, remedies.HunkChoice())
    return replace(alone, patches=patches), text


def test_levers_in_one_file_are_made_at_once(run: Path, measuring: Measuring) -> None:
    both, _ = planned_with_calls({"gc-collect": "gc.collect()"})
    patch = chosen_patches.patch_together(both, ("event-sync", "gc-collect"), pipeline_options(PlanOptions()))
    assert patch is not None
    after = patch.files[0].after.decode()
    assert "if batch_number % 100 == 0:  # thinned by tracelens" in after
    assert "torch.cuda.synchronize()" not in after
    assert {hunk.edit for hunk in patch.hunks} >= {"rare-call"} and len(patch.hunks) == 1 + len(
        both.patches["event-sync"].hunks
    )


def test_two_levers_that_make_calls_rarer_count_the_batches_once(run: Path, measuring: Measuring) -> None:
    both, text = planned_with_calls({"gc-collect": "gc.collect()", "empty-cache": "torch.cuda.empty_cache()"})
    patch = chosen_patches.patch_together(both, ("empty-cache", "gc-collect"), pipeline_options(PlanOptions()))
    assert patch is not None
    after = patch.files[0].after.decode()
    assert after.count("enumerate(") == text.count("enumerate(") + 1
    assert after.count("# thinned by tracelens") == 1
    assert "                gc.collect()\n                torch.cuda.empty_cache()\n" in after


@pytest.mark.parametrize(
    ("budget", "events", "seconds", "said"),
    [("10m", 1_000_000, 60.0, "train.py first\n"), ("2.5m", 250_000, 15.0, "first, in shorter windows, as the budget")],
)
def test_a_short_budget_shortens_the_recording_and_says_so(
    budget: str, events: int, seconds: float, said: str, run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[recording.ProfileOptions] = []

    def profile(options: recording.ProfileOptions) -> recording.Outcome:
        asked.append(options)
        return recording.Outcome(run, status=1, complete=False, reason="not in this test", ranks=0, stopped=False)

    monkeypatch.setattr(recording, "profile", profile)
    assert main(["fix", "train.py", "--budget", budget]) == 4
    assert (asked[0].plan.most_events, asked[0].plan.most_window_seconds) == (events, seconds)
    assert said in capsys.readouterr().err
