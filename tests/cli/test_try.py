"""`tracelens try`: what is asked for, what is kept in the run, what is shown, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import run_cases as cases
from tests.support.schemas import SCHEMA
from tracelens.cli import main
from tracelens.model import Speedup
from tracelens.verify.lever_trial import LeverMeasurement, LeverRequest, LeverTrial
from tracelens.verify.supervisor import lever_session
from tracelens.verify.supervisor.lever_session import LeverSessionResult

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.slow


class Session:
    """Stands for the processes: every lever is twice as fast, but for those that are told otherwise."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.request: LeverRequest | None = None
        self.failing = ("compile",)
        self.interrupted = False
        self.apart: tuple[str, ...] = ()
        self.short: tuple[str, ...] = ()

    def try_levers(self, request: LeverRequest, trials: Sequence[LeverTrial], on_result: Any) -> LeverSessionResult:
        self.request, self.tried = request, [trial.id for trial in trials]
        levers = tuple(self._measured(trial) for trial in trials)
        best = next((one for one in levers if one.speedup is not None), None)
        environment = {"device": "cpu"}
        result = LeverSessionResult(
            levers, best, 10_000_000, environment, ("train.py",), self.interrupted, 5.0, self.apart
        )
        on_result(result)
        return result

    def _measured(self, trial: LeverTrial) -> LeverMeasurement:
        if trial.id in self.failing:
            return LeverMeasurement(trial, "failed", "the compile version ended with exit code 1")
        if trial.id in self.short:
            return LeverMeasurement(trial, "measured", None, ((10e6, 5e6),))
        pairs = ((10e6, 5e6),) * 3
        if trial.id == "bf16":
            ends = {"low": 1.0, "high": 3.0, "patched": 2.0}
            curve = {"low": [1.0] * 4, "high": [3.0] * 4, "patched": [2.0, 2.9, 1.1, 2.0], "tail": ends}
            band = {"seeds": 3, "curves": [{**curve, "outside_share": 0.0}], "verdict": "within seed noise"}
            fast = Speedup(2.0, 1.8, 2.2)
            return LeverMeasurement(trial, "measured", None, pairs, fast, "inside_seed_band", seed_band=band)
        return LeverMeasurement(trial, "measured", None, pairs, Speedup(2.0, 1.8, 2.2), "same", memory_bytes_delta=None)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr(lever_session, "try_levers", made.try_levers)
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return next(Path("tracelens-runs").iterdir())


def by_id(document: dict[str, Any]) -> dict[str, Any]:
    return {lever["id"]: lever for lever in document["levers"]}


def test_what_was_measured_is_in_the_answer_in_the_run_and_in_every_later_plan(
    run: Path, session: Session, capsys: Capture
) -> None:
    assert main(["try", str(run), "workers=6", "compile", "--budget", "9m", "--format", "json"]) == 0
    assert session.tried == ["workers=6", "compile"]
    assert session.request is not None and session.request.budget_s == 540
    answer = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(answer)
    assert by_id(answer)["workers=6"]["measured"] == {
        "speedup": 2.0,
        "low": 1.8,
        "high": 2.2,
        "before_us": 10_000.0,
        "after_us": 5_000.0,
    }
    assert by_id(answer)["compile"]["state"] == "measured"
    assert by_id(answer)["compile"]["reason"] == "the compile version ended with exit code 1"
    assert answer["combination"]["levers"] == ["workers=6"]
    assert json.loads((run / "try.json").read_text())["levers"][0]["pairs_us"] == [[10_000.0, 5_000.0]] * 3
    assert main(["recommend", str(run), "--format", "json"]) == 0
    again = by_id(json.loads(capsys.readouterr().out))
    assert again["workers=6"]["state"] == "measured" and again["workers=6"]["rank"] is not None


def test_the_table_says_gain_range_and_results(run: Path, session: Session, capsys: Capture) -> None:
    assert main(["try", str(run), "workers=6", "compile"]) == 0
    streams = capsys.readouterr()
    assert (
        "Measuring: DataLoader workers 6 (workers=6), torch.compile (compile). Your files stay as they are."
        in streams.err
    )
    said = " ".join(streams.out.split())  # a narrow terminal breaks the sentence
    assert "Faster: DataLoader workers 6 +100 % (95 % sure: +80 % to +120 %); same results, bit for bit." in said
    assert "10.0 → 5.0 (4.5 to 5.6)" in streams.out
    assert "the compile version ended with exit code 1" in said
    assert f"next: tracelens recommend {run}/" in streams.out


def test_a_lever_that_changes_losses_is_drawn_beside_other_seeds(run: Path, session: Session, capsys: Capture) -> None:
    assert main(["try", str(run), "bf16"]) == 0
    shown = capsys.readouterr().out
    assert "loss with bf16, 4 blocks of steps: 0 % outside the band of 3 seeds" in " ".join(shown.split())
    assert "band |*..*|" in shown and "above |    |" in shown


def test_without_names_what_is_known_is_not_measured_again(run: Path, session: Session, capsys: Capture) -> None:
    assert main(["try", str(run), "all", "-q"]) == 0
    first = session.tried
    assert {"bf16", "compile", "batch=2x"} <= set(first)
    session.tried = []
    assert main(["try", str(run), "all", "-q"]) == 0
    assert session.tried == []
    assert main(["try", str(run), "bf16", "-q"]) == 0
    assert session.tried == ["bf16"], "named, it is measured again"


def test_a_changed_script_is_not_tried_and_its_old_results_are_not_shown(
    run: Path, session: Session, capsys: Capture
) -> None:
    assert main(["try", str(run), "workers=6", "-q"]) == 0
    script = Path("train.py")
    script.write_text(script.read_text() + "\n# changed\n")
    capsys.readouterr()
    assert main(["try", str(run), "workers=6", "-q"]) == 1
    assert "changed since it was recorded" in capsys.readouterr().err
    assert main(["recommend", str(run), "--format", "json"]) == 0
    assert "workers=6" not in by_id(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["worker"], 2, "unknown lever: worker. Did you mean workers=N?"),
        (["all", "bf16"], 2, "`all` and names of levers exclude each other"),
        (["trian.py"], 4, "no such script: trian.py. Did you mean 'train.py'?"),
        (["line=nowhere.py:3"], 2, "nowhere.py is not a file of this run's project"),
        (["bf16", "--", "--epochs", "2"], 2, "a run has the arguments that it was recorded with"),
    ],
)
def test_what_cannot_be_tried_is_said_before_anything_runs(
    words: list[str], status: int, said: str, run: Path, session: Session, capsys: Capture
) -> None:
    assert main(["try", *words]) == status
    assert said in capsys.readouterr().err
    assert session.tried == []


def test_nothing_measured_is_undecided_and_ctrl_c_shows_what_was_measured(
    run: Path, session: Session, capsys: Capture
) -> None:
    assert main(["try", str(run), "compile", "-q"]) == 3
    session.interrupted = True
    assert main(["try", str(run), "workers=6"]) == 130
    said = " ".join(capsys.readouterr().out.split())
    assert "Interrupted; what was measured is kept. Faster: DataLoader workers 6" in said


def test_what_was_not_tried_together_is_said(run: Path, session: Session, capsys: Capture) -> None:
    session.apart = ("workers=6",)
    assert main(["try", str(run), "bf16", "workers=6"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "Not measured together with it, for lack of time: DataLoader workers 6 (workers=6). Give a larger --budget."
        in said
    )


def test_a_lever_whose_time_ran_out_is_said_to_have_been_begun(run: Path, session: Session, capsys: Capture) -> None:
    """Its pair was on the screen a moment ago: it is not among what nobody tried."""
    session.short = ("workers=6",)
    assert main(["try", str(run), "workers=6"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(
        "Too few turns for a number; in one turn +100 % with DataLoader workers 6 (workers=6). Seen in too"
    )
    assert "DataLoader workers 6 (workers=6) 10.0 → 5.0 +100 %" in said
    rest = said.partition("Not tried")[2]
    assert "workers=6" not in rest.partition("next:")[0]
    assert rest.endswith("workers=6 --budget 20m")


def test_variables_that_make_every_number_meaningless_come_first(
    tmp_path: Path, session: Session, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cases.recorded(tmp_path, environment={"variables": {"CUDA_LAUNCH_BLOCKING": "1"}})
    monkeypatch.chdir(tmp_path)
    assert main(["try", str(folder), "workers=6"]) == 0
    said = capsys.readouterr().out.strip().splitlines()[0]
    assert said.strip().startswith("CUDA_LAUNCH_BLOCKING=1 was set")
