"""`check` and `compare`: what fails a job, what does not, and what is left to look at when it did."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import report_cases
from tests.support import run_cases as cases
from tests.support.places import ROOT
from tracelens import run as runs
from tracelens.cli import main
from tracelens.report import budget, compare, gate, issues

pytestmark = pytest.mark.slow  # most of these run several whole commands

Capture = pytest.CaptureFixture[str]


def schema(name: str) -> jsonschema.Draft202012Validator:
    document = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(project: Path) -> Path:
    return next((project / "tracelens-runs").iterdir())


def baseline(run: Path, capsys: Capture, **changes: Any) -> Path:
    """The analysis of the run as a baseline, with some findings changed or left out."""
    assert main(["analyze", str(run), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    document.update(changes)
    path = Path("baseline.json")
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


# --------------------------------------------------------------------------------------------------------- check


def test_the_evidence_is_there_when_the_gate_fails(run: Path, capsys: Capture) -> None:
    assert main(["check", str(run), "--max-syncs-per-step", "1"]) == 1
    streams = capsys.readouterr()
    assert "The gate fails: synchronizations per step: 2, at most 1." in streams.out
    for name in ("check.json", "analysis.json", "report.html"):
        assert (run / name).is_file() and name in streams.err
    schema("check").validate(json.loads((run / "check.json").read_text()))


def test_the_evidence_of_a_bare_trace_goes_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = cases.trace(Path("t.json"))
    assert main(["check", str(trace), "--max-syncs-per-step", "1"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.json"]
    assert main(["check", str(trace), "--max-syncs-per-step", "1", "-o", "evidence"]) == 1
    assert (tmp_path / "evidence" / "report.html").is_file()
    (tmp_path / "file").write_text("")
    assert main(["check", str(trace), "--max-syncs-per-step", "1", "-o", "file/x"]) == 2


def test_what_is_on_the_allow_list_is_not_counted(run: Path, capsys: Capture) -> None:
    places = [f"train.py:{cases.SYNC_LINE}", f"train.py:{cases.ITEM_LINE}"]
    assert main(["check", str(run), "--max-syncs-per-step", "1", "--allow", places[0]]) == 0
    assert main(["check", str(run), "--max-syncs-per-step", "0", "--allow", places[0]]) == 1
    assert main(["check", str(run), "--max-syncs-per-step", "0", "--max-exposed-ms", "0", "--allow", "train.py"]) == 0
    capsys.readouterr()


def test_an_allowance_that_allows_nothing_is_said(run: Path, capsys: Capture) -> None:
    assert main(["check", str(run), "--max-syncs-per-step", "9", "--allow", "train.py:999", "--format", "json"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["unused_allowances"] == ["train.py:999"] and "has the line moved?" in streams.err


def test_only_new_findings_fail_against_a_baseline(run: Path, capsys: Capture) -> None:
    path = baseline(run, capsys)
    assert main(["check", str(run), "--baseline", str(path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema("check").validate(document)
    assert document["findings"] and {one["state"] for one in document["findings"]} == {"known"}
    path = baseline(run, capsys, findings=[])
    assert main(["check", str(run), "--baseline", str(path), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is False and "new finding" in document["verdict"]
    assert main(["check", str(run), "--baseline", str(path), "--new-share", "1"]) == 0


def test_a_finding_that_is_gone_is_reported_and_does_not_fail(run: Path, capsys: Capture) -> None:
    path = baseline(run, capsys)
    document = json.loads(path.read_text())
    document["findings"].append({"id": "sync_stall", "title": "Old", "fingerprint": "0" * 16, "location": None})
    path.write_text(json.dumps(document))
    assert main(["check", str(run), "--baseline", str(path)]) == 0
    assert "gone" in capsys.readouterr().out


def test_the_analysis_in_a_run_folder_is_a_baseline(run: Path, project: Path) -> None:
    assert main(["recommend", str(run)]) == 0
    assert main(["check", str(run), "--baseline", str(run)]) == 0


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, 4), (b"", 4), (b"[]", 4), (b"{}", 4), (b'{"findings": 3}', 4), (b'{"findings": [{}]}', 4),
        (b'{"findings": [{"id": "x", "title": "y"}]}', 4), (b'{"findings": null}', 4), (b"\xff\xfe", 4),
        (b'{"findings": [null]}', 4),
        (b'{"findings": [{"id": null, "title": null, "fingerprint": null}]}', 4),
        (b'{"findings": [{"id": "x", "title": "y", "fingerprint": "z", "location": {"line": "three"}}]}', 4),
    ],
)  # fmt: skip
def test_a_baseline_that_is_none_is_unreadable_input(
    content: bytes | None, code: int, run: Path, capsys: Capture
) -> None:
    if content is not None:
        Path("b.json").write_bytes(content)
    assert main(["check", str(run), "--baseline", "b.json"]) == code
    said = capsys.readouterr().err
    assert "b.json" in said and "hint: make one: tracelens analyze" in said and "Traceback" not in said


@pytest.mark.programs
def test_a_device_is_no_baseline_and_a_pipe_is_one(run: Path, capsys: Capture) -> None:
    for device in ("/dev/zero", "/dev/full", "/dev/null"):
        assert main(["check", str(run), "--baseline", device]) == 4
    path = baseline(run, capsys)
    line = f"{sys.executable} -m tracelens check {run} --baseline <(cat {path}) -q"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("entry", ["", ":", ":3", "./", "  "])
def test_an_allowance_without_a_file_is_wrong_usage(entry: str, run: Path, capsys: Capture) -> None:
    assert main(["check", str(run), "--max-step-ms", "9", "--allow", entry]) == 2
    assert "is not FILE:LINE or FILE" in capsys.readouterr().err


def test_a_budget_broken_beats_one_that_could_not_be_judged() -> None:
    diagnosis = report_cases.diagnosis()
    limits = budget.Budgets(syncs_per_step=1, exposed_ms=1)
    judged = gate.judge(diagnosis, budget.judge_budgets(diagnosis, limits, None), (), None, 0.02)
    assert judged.passed is False
    loose = replace(limits, syncs_per_step=9)
    unknown = gate.judge(diagnosis, budget.judge_budgets(diagnosis, loose, None), (), None, 0.02)
    assert unknown.passed is None and "could not be measured" in unknown.verdict


def test_calls_that_were_not_recorded_are_not_zero_synchronizations() -> None:
    base = report_cases.diagnosis(stalls=())
    blind = replace(base.timeline, trace=replace(base.timeline.trace, signals=frozenset({"gpu"})))
    (item,) = budget.judge_budgets(replace(base, timeline=blind), budget.Budgets(syncs_per_step=0), None)
    assert item.value is None and item.within is None


@pytest.mark.parametrize("form", ["text", "json", "markdown", "github", "sarif"])
def test_the_verdict_of_the_gate_is_one_sentence_everywhere(form: str, run: Path, capsys: Capture) -> None:
    assert main(["check", str(run), "--max-syncs-per-step", "1", "--format", form]) == 1
    out = capsys.readouterr().out
    if form == "sarif":
        assert json.loads(out)["version"] == "2.1.0"
    else:
        assert "The gate fails: synchronizations per step: 2, at most 1." in out
    if form == "github":
        assert out.startswith("::error title=TraceLens::The gate fails")


def test_check_in_a_folder_that_is_only_to_be_read_still_judges(
    run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tracelens.run.writing.write_bytes", refuse)
    assert main(["check", str(run), "--max-syncs-per-step", "1"]) == 1
    assert "cannot be written" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------- compare


def steps(by: float, count: int = 40) -> list[int]:
    return [round(by * (10_000_000 + 50_000 * (k % 7))) for k in range(count)]


def test_the_interval_of_several_starts_is_as_wide_as_the_starts_differ() -> None:
    steady = compare._ratio([steps(1.0)] * 3, [steps(1.0)] * 3)
    shaky = compare._ratio([steps(0.9), steps(1.0), steps(1.1)], [steps(0.9), steps(1.0), steps(1.1)])
    assert steady is not None and shaky is not None
    assert steady.high - steady.low < 0.01
    assert shaky.high - shaky.low > 0.1
    assert shaky.low < 1 < shaky.high


def test_steps_that_drift_together_give_a_wider_interval_than_shuffled_ones() -> None:
    """The bootstrap draws blocks: steps that follow one another resemble one another."""
    drifting = [10_000_000 + 20_000 * (k // 30) * (k // 30) for k in range(300)]
    shuffled = [drifting[(k * 97) % 300] for k in range(300)]
    wide, narrow = (compare._ratio([steps(1.0)], [side]) for side in (drifting, shuffled))
    assert wide is not None and narrow is not None
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)


def found(base: tuple[int, ...], new: tuple[int, ...], low: float, mid: float, high: float) -> compare.Comparison:
    ratio = report_cases.Ratio(mid, low, high)
    return compare.Comparison(base, new, ratio, True, (), (), ())


def test_three_starts_a_side_must_not_overlap_to_fail() -> None:
    assert found((100, 101, 102), (110, 111, 112), 1.08, 1.1, 1.12).judgment == "slower"
    assert found((100, 101, 111), (110, 111, 112), 1.08, 1.1, 1.12).judgment == "inconclusive"
    assert found((100,), (110,), 1.08, 1.1, 1.12).judgment == "slower"


def test_a_folder_of_runs_is_several_starts(project: Path, run: Path, capsys: Capture) -> None:
    many = project / "many"
    for name in ("a", "b", "c"):
        shutil.copytree(run, many / name)
        meta = json.loads((many / name / "run.json").read_text())
        (many / name / "run.json").write_text(json.dumps(meta | {"cwd": "../.."}))
    assert main(["compare", str(many), str(run), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema("compare").validate(document)
    assert len(document["base_starts_us"]) == 3 and len(document["new_starts_us"]) == 1
    assert "3 against 1 starts" in document["verdict"]
    (many / "a" / "run.json").write_text("{}")
    assert main(["compare", str(many), str(run)]) == 4


def test_a_new_wait_is_named_with_its_line(tmp_path: Path, capsys: Capture) -> None:
    base, new = report_cases.diagnosis(stalls=()), report_cases.diagnosis()
    comparison = compare.compare_diagnoses(base, new)
    wait = next(one for one in comparison.waits if "synchronize" in one.name)
    assert (wait.state, wait.new_lines, wait.delta_ns) == ("new", (11,), 6_000_000)
    gone = next(one for one in compare.compare_diagnoses(new, base).waits if "synchronize" in one.name)
    assert gone.state == "gone" and gone.base_lines == (11,)


def test_new_and_gone_findings_are_told_apart() -> None:
    base = report_cases.diagnosis(findings=())
    new = report_cases.diagnosis()
    assert [one.title for one in compare.compare_diagnoses(base, new).appeared] == ["The host waits in every batch"]
    assert [one.title for one in compare.compare_diagnoses(new, base).vanished] == ["The host waits in every batch"]
    assert compare.compare_diagnoses(new, new).appeared == () == compare.compare_diagnoses(new, new).vanished
    assert issues.list_issues(new)[0].fingerprint == compare.compare_diagnoses(base, new).appeared[0].fingerprint


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"environment": {"torch": "2.12.0+cu130"}}, "torch: 2.13 against 2.12"),
        (
            {"ranks_loader": {"batch_size": 64, "batch_bytes": 99}},
            "batch: 32 samples, 7 bytes against 64 samples, 99 bytes",
        ),
        ({"world": 2}, "world size: 1 against 2"),
    ],
)
def test_what_is_not_comparable_is_named_and_makes_the_gate_inconclusive(
    changes: dict[str, Any], obstacle: str, tmp_path: Path, capsys: Capture
) -> None:
    sides = [recorded(tmp_path / "a"), recorded(tmp_path / "b", **changes)]
    words = ["compare", *map(str, sides)]
    assert main([*words, "--gate"]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"Not comparable: {obstacle}"), "before any number"
    field = obstacle.partition(":")[0].replace(" ", "-")
    assert main([*words, "--gate", "--despite", field]) == 0
    assert main(words) == 0


def recorded(project: Path, **changes: Any) -> Path:
    """A run whose environment, batch or world size differ as told."""
    project.mkdir()
    folder = cases.recorded(project)
    meta = json.loads((folder / runs.RUN_FILE).read_text())
    meta["environment"] |= changes.get("environment", {})
    meta["ranks"][0]["loaders"] = [changes.get("ranks_loader", {"batch_size": 32, "batch_bytes": 7})]
    meta["ranks"][0]["world_size"] = changes.get("world", 1)
    (folder / runs.RUN_FILE).write_text(json.dumps(meta))
    return folder


def test_a_patch_release_of_torch_is_no_obstacle(tmp_path: Path) -> None:
    sides = [recorded(tmp_path / "a"), recorded(tmp_path / "b", environment={"torch": "2.13.9+cpu"})]
    assert main(["compare", *map(str, sides), "--gate"]) == 0


@pytest.mark.parametrize("form", ["text", "json", "markdown", "github", "sarif"])
def test_each_format_of_a_comparison(form: str, run: Path, capsys: Capture) -> None:
    assert main(["compare", str(run), str(run), "--format", form]) == 0
    out = capsys.readouterr().out
    if form == "json":
        schema("compare").validate(json.loads(out))
    elif form == "sarif":
        states = {one["baselineState"] for one in json.loads(out)["runs"][0]["results"]}
        assert states == {"unchanged"}
    else:
        assert "+0 %" in out or "+0 %25" in out
