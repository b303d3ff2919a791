"""Each command on a Run made by hand: what it prints, what it writes, how it exits."""

from __future__ import annotations

import errno
import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support import run_cases as cases
from tracelens.cli import main

pytestmark = pytest.mark.slow  # most of these run several whole commands

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one Run in it, and we are there."""
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: Capture) -> str:
    streams = capsys.readouterr()
    return streams.out + streams.err


def next_words(text: str) -> list[str]:
    found = re.search(r"^next: tracelens (.+)$", text, re.MULTILINE)
    assert found is not None, text
    return found[1].split()


def test_each_next_command_works_until_the_change_is_to_be_measured(project: Path, capsys: Capture) -> None:
    words = ["analyze"]
    seen = []
    while words[0] != "verify":
        seen.append(words[0])
        if words[0] == "fix":  # it would measure first: what it then writes is what `apply` writes
            words = ["apply", *words[1:]]
        assert main(words) == 0
        words = next_words(said(capsys))
    assert seen == ["analyze", "recommend", "fix"]
    assert "pending_losses" in (project / "train.py").read_text()


def test_the_next_command_works_from_elsewhere_and_keeps_the_plan(
    project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = next((project / "tracelens-runs").iterdir())
    (elsewhere := project / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    given = [f"{run}/", "--interval", "5", "--weights", "risk=20"]
    assert main(["recommend", *given]) == 0
    words = next_words(said(capsys))
    assert words == ["fix", *given]
    assert main(["apply", *given, "--dry-run", "--skip", "TL101"]) == 0
    assert next_words(said(capsys)) == ["apply", *given, "--skip", "TL101"]
    assert main(["apply", *given, "--dry-run", "--scheme", "interval-sync"]) == 0
    shown = said(capsys)
    assert "every=5" in shown or "every 5 batches" in shown


def test_a_bare_trace_is_named_by_its_path_and_no_stage_sends_it_to_verify(tmp_path: Path, capsys: Capture) -> None:
    trace = cases.trace(tmp_path / "bare.json")
    assert main(["recommend", "-v", str(trace)]) == 0
    shown = said(capsys)
    assert next_words(shown) == ["profile", "SCRIPT"]
    assert "tracelens verify" not in shown and "on a run of your own" in shown


def test_check_and_compare_end_with_the_next_command(project: Path, capsys: Capture) -> None:
    run = f"{next((project / 'tracelens-runs').iterdir())}/"
    main(["check", run.rstrip("/"), "--max-syncs-per-step", "1"])
    assert next_words(said(capsys)) == ["recommend", run]
    assert main(["compare", run, run]) == 0
    assert next_words(said(capsys)) == ["recommend", run]


def test_apply_shows_the_diff_and_dry_run_only_shows_it(project: Path, capsys: Capture) -> None:
    assert main(["apply", "--dry-run"]) == 0
    shown = said(capsys)
    assert "-                torch.cuda.synchronize()" in shown and "TL201" in shown
    assert (project / "train.py").read_text() == cases.SCRIPT


def test_revert_gives_back_the_exact_bytes(project: Path, capsys: Capture) -> None:
    assert main(["apply"]) == 0
    said(capsys)
    assert main(["apply"]) == 0 and "applied already: nothing to do" in said(capsys)
    assert main(["apply", "--scheme", "interval-sync"]) == 1 and "applied already" in said(capsys)
    assert main(["revert"]) == 0
    assert (project / "train.py").read_bytes() == cases.SCRIPT.encode()
    assert not (project / "tracelens_runtime.py").exists()
    assert main(["revert"]) == 4 and "no backup" in said(capsys)


def test_revert_names_the_older_run_whose_patch_is_in_the_files(project: Path, capsys: Capture) -> None:
    """Applied, and recorded again to see what it brought: the newest run has nothing to undo."""
    older = next((project / "tracelens-runs").iterdir())
    assert main(["apply"]) == 0
    shutil.copytree(older, older.with_name("20260202-000000-train-made"), ignore=shutil.ignore_patterns("backup"))
    said(capsys)
    assert main(["revert"]) == 4
    assert f"tracelens revert tracelens-runs/{older.name}/" in said(capsys)
    assert main(["revert", f"tracelens-runs/{older.name}"]) == 0
    assert (project / "train.py").read_text() == cases.SCRIPT


def test_revert_refuses_when_the_file_was_edited_since(project: Path, capsys: Capture) -> None:
    assert main(["apply"]) == 0
    edited = (project / "train.py").read_text() + "# mine\n"
    (project / "train.py").write_text(edited)
    assert main(["revert"]) == 1 and "edited since" in said(capsys)
    assert (project / "train.py").read_text() == edited


def test_apply_refuses_a_script_that_changed(project: Path, capsys: Capture) -> None:
    (project / "train.py").write_text(cases.SCRIPT + "# mine\n")
    assert main(["apply"]) == 1
    shown = said(capsys)
    assert "changed since it was recorded" in shown and "record again: tracelens profile" in shown
    assert (project / "train.py").read_text() == cases.SCRIPT + "# mine\n"


def test_only_and_skip_choose_hunks(project: Path, capsys: Capture) -> None:
    assert main(["apply", "--dry-run", "--only", "TL101"]) == 0
    shown = said(capsys)
    assert "TL101" in shown and "-                torch.cuda.synchronize()" not in shown
    assert main(["apply", "--dry-run", "--skip", "TL999"]) == 2 and "TL999" in said(capsys)


@pytest.mark.parametrize(("scheme", "code", "text"), [("nonsense", 2, "event-sync"), ("pinned-copy", 1, "no patch")])
def test_a_scheme_that_is_not_there_is_refused_with_what_is(
    scheme: str, code: int, text: str, project: Path, capsys: Capture
) -> None:
    assert main(["apply", "--scheme", scheme]) == code and text in said(capsys)
    assert (project / "train.py").read_text() == cases.SCRIPT


def test_report_writes_one_page_where_it_says(project: Path, capsys: Capture) -> None:
    assert main(["report", "-o", "page.html"]) == 0
    assert capsys.readouterr().out.strip() == "page.html"
    assert (project / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert main(["report"]) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()


def test_report_without_source(project: Path, capsys: Capture) -> None:
    assert main(["report", "-o", "page.html", "--source", "none"]) == 0
    assert "losses.append(loss.item())" not in (project / "page.html").read_text()


def test_weights_change_the_ranking_and_are_checked(project: Path, capsys: Capture) -> None:
    assert main(["recommend", "--format", "json", "--weights", "performance=100"]) == 0
    document = json.loads(capsys.readouterr().out)
    judged = [scheme for scheme in document["schemes"] if scheme["estimate"]]
    assert [scheme["total"] for scheme in judged] == [scheme["scores"]["performance"]["score"] for scheme in judged]
    assert document["sensitivity"]["weights"]["performance"] == 100
    assert main(["recommend", "--weights", "speed=10"]) == 2 and "speed" in said(capsys)


def test_a_bare_trace_can_be_recommended_but_not_applied(tmp_path: Path, capsys: Capture) -> None:
    trace = cases.trace(tmp_path / "bare.json")
    assert main(["recommend", str(trace)]) == 0
    capsys.readouterr()
    assert main(["apply", str(trace)]) == 2 and "needs a run" in said(capsys)
    script = tmp_path / "train.py"
    script.write_text(cases.SCRIPT)
    assert main(["apply", str(trace), "--script", str(script), "--dry-run"]) == 0
    assert "+                batch_done.record()" in said(capsys)
    assert main(["apply", str(trace), "--script", str(script)]) == 2
    assert script.read_text() == cases.SCRIPT


def test_compare_a_run_with_itself_is_no_regression(project: Path, capsys: Capture) -> None:
    run = str(next((project / "tracelens-runs").iterdir()))
    assert main(["compare", run, run, "--gate"]) == 0
    assert "+0 %" in said(capsys)
    assert main(["compare", run, run, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["judgment"] == "not slower"


def test_compare_fails_the_gate_for_a_slower_run(tmp_path: Path, capsys: Capture) -> None:
    fast, slow = cases.trace(tmp_path / "fast.json"), cases.trace(tmp_path / "slow.json", kernels=60)
    assert main(["compare", str(fast), str(slow), "--gate"]) == 1
    assert main(["compare", str(slow), str(fast), "--gate"]) == 0
    assert main(["compare", str(fast), str(slow)]) == 0


@pytest.mark.parametrize(
    ("budget", "code"),
    [
        (["--max-syncs-per-step", "2"], 0),
        (["--max-syncs-per-step", "1"], 1),
        (["--max-idle-share", "0.5", "--max-step-ms", "1"], 1),
        (["--max-idle-share", "0.5"], 0),
        (["--max-exposed-ms", "0.1"], 1),
        (["--max-exposed-ms", "1"], 0),
        ([], 2),
    ],
)
def test_check_exits_by_its_budgets(budget: list[str], code: int, project: Path, capsys: Capture) -> None:
    run = str(next((project / "tracelens-runs").iterdir()))
    assert main(["check", run, *budget]) == code


def test_check_without_a_measurement_is_inconclusive(tmp_path: Path, capsys: Capture) -> None:
    trace = cases.trace(tmp_path / "two.json", steps=2)
    assert main(["check", str(trace), "--max-exposed-ms", "1"]) == 3
    assert "not measured" in said(capsys)


def test_annotate_adds_tracks_and_keeps_the_rest(tmp_path: Path, capsys: Capture) -> None:
    trace, out = cases.trace(tmp_path / "t.json"), tmp_path / "o.json.gz"
    before = json.loads(trace.read_text())["traceEvents"]
    assert main(["annotate", str(trace), "-o", str(out)]) == 0
    after = json.loads(gzip.decompress(out.read_bytes()))["traceEvents"]
    assert after[: len(before)] == before
    steps = [row for row in before if str(row["name"]).startswith("ProfilerStep")]
    ours = [row for row in after[len(before) :] if row["name"].startswith("step ")]
    assert [(row["ts"], row["dur"]) for row in ours] == [
        (pytest.approx(row["ts"]), pytest.approx(row["dur"])) for row in steps
    ]
    assert main(["annotate", str(trace), "-o", str(trace)]) == 2 and "overwrite" in said(capsys)


def test_rules_lists_and_explains(capsys: Capture) -> None:
    assert main(["rules"]) == 0
    listed = said(capsys)
    for rule in ("event-interval", "pinned-copy", "sync_stall", "interval-sync"):
        assert rule in listed
    assert main(["rules", "event-interval"]) == 0 and "Priors" in said(capsys)
    assert main(["rules", "sync_stall"]) == 0 and "measured" in said(capsys)
    assert main(["rules", "defer-read"]) == 0 and "Before" in said(capsys)
    assert main(["rules", "nonsense"]) == 2 and "event-interval" in said(capsys)


def test_an_output_never_replaces_what_was_read(project: Path, capsys: Capture) -> None:
    run = next((project / "tracelens-runs").iterdir())
    trace = next(run.glob("rank0/*.gz"))
    for target in (project / "train.py", run / "run.json", trace):
        before = target.read_bytes()
        assert main(["report", str(run), "-o", str(target)]) == 2
        assert main(["annotate", str(run), "-o", str(target)]) == 2
        assert "overwrite" in said(capsys)
        assert target.read_bytes() == before


def test_a_run_that_is_only_to_be_read_still_gets_its_answer(
    project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    given = ["recommend", str(project / "tracelens-runs" / "20260101-000000-train-made")]
    with monkeypatch.context() as patched:
        patched.setattr("tracelens.run.writing.write_bytes", refuse)
        assert main(given) == 0
    streams = capsys.readouterr()
    assert "cannot be written: Permission denied" in streams.err
    assert main(given) == 0
    written = capsys.readouterr()
    assert streams.out == written.out and "Two waits block Python for " in streams.out
    assert "cannot be written" not in written.err


def test_the_id_of_a_hunk_is_explained_as_its_kind_of_change(capsys: Capture) -> None:
    assert main(["rules", "TL101", "--format", "json"]) == 0
    assert "defer-read" in capsys.readouterr().out
    assert main(["rules", "TL10-01"]) in (0, 2)  # no kind 10 yet: an unknown id is refused like any other
    assert main(["rules", "TL999999x"]) == 2
