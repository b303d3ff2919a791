"""What every command has in common: exit codes, one sentence and a hint, JSON alone on stdout, no escapes in pipes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import run_cases as cases
from tests.support.places import ROOT
from tracelens import cli
from tracelens.cli import main

COMMANDS = list(cli.root.commands)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cases.recorded(tmp_path_factory.mktemp("project"))


def run(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-m", "tracelens", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=variables)


def test_only_a_process_of_our_own_ends_without_a_search_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(1))
    monkeypatch.setattr(sys, "argv", ["tracelens", "--help"])
    assert main(["--help"]) == 0 and frozen == []  # somebody who calls main goes on living
    assert main() == 0 and frozen == [1]


def test_the_commands_are_listed_in_the_order_of_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].split("\n")
    assert [line.split()[0] for line in listed if line.strip()] == [
        "profile", "analyze", "recommend", "report", "apply", "revert", "verify", "try", "fix", "patch", "compare",
        "check", "annotate", "rules", "doctor", "completion",
    ]  # fmt: skip


@pytest.mark.programs
def test_a_module_of_the_project_is_not_taken_for_one_of_ours(tmp_path: Path) -> None:
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("raise SystemExit('the project was imported')")
    (tmp_path / "train.py").write_text("print(1)\n")
    done = run("patch", "train.py", "--every-place", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing" in done.stdout.lower()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: tracelens {command}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recomend"], "Did you mean 'recommend'?"),
        (["analyze", "--format", "jsn"], "Did you mean 'json'?"),
        (["rules", "evnt-sync"], "Did you mean 'event-sync'?"),
        (["compare", "a", "b", "--despite", "torhc"], "Did you mean 'torch'?"),
        (["report", "--scrpt", "x"], "Did you mean one of: '--card', '--script'?"),
        (["analyze", "--format", "yaml"], "'yaml' is not one of 'text', 'json', 'markdown', 'github', 'sarif'"),
        (["recommend", "--time", "soon"], "'soon' is not a time such as 2d"),
        (["recommend", "--weights", "speed"], "'speed' is not CRITERION=PERCENT"),
        (["verify", "--budget", "much"], "'much' is not a time such as 10m"),
        (["apply", "--interval", "0"], "0 is not in the range"),
        (["compare", "one"], "Missing argument"),
    ],
)
def test_wrong_usage_is_2_and_says_what_is_meant(
    words: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    streams = capsys.readouterr()
    assert said in streams.err and streams.out == ""


BAD_FILES = {
    "absent.json": None,
    "empty.json": b"",
    "notjson.json": b"hello",
    "noevents.json": b'{"traceEvents": []}',
    "list.json": b"[1, 2]",
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["analyze", "recommend", "report", "check"])
def test_unreadable_input_is_4_with_one_sentence_and_a_hint(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = BAD_FILES[name]
    if data is not None:
        Path(name).write_bytes(data)
    before = sorted(tmp_path.iterdir())
    assert main([command, name, *(["--max-step-ms", "1"] if command == "check" else [])]) == 4
    streams = capsys.readouterr()
    assert name in streams.err and "hint: " in streams.err
    assert "Traceback" not in streams.err and streams.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_no_run_anywhere_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("analyze", "recommend", "report", "apply", "verify", "revert"):
        assert main([command]) == 4, command
        assert "tracelens profile train.py" in capsys.readouterr().err


def test_mistakes_in_rules_are_2_and_all_listed(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weights.yaml").write_text("weights: {performance: much, speed: 3}\n")
    assert main(["recommend", str(folder), "--rules", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "mistake" in said and "performance" in said and "speed" in said and "Traceback" not in said


def test_a_bug_keeps_its_traceback_and_is_70(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracelens import pipeline

    def broken(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(pipeline, "diagnose", broken)
    assert main(["analyze", str(folder)]) == 70
    said = capsys.readouterr().err
    assert "Traceback" in said and "planted" in said and "this is a bug in TraceLens" in said


def test_an_interrupt_is_130(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracelens import pipeline

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "diagnose", interrupted)
    assert main(["analyze", str(folder)]) == 130


@pytest.mark.programs
@pytest.mark.parametrize("command", ["analyze", "recommend"])
def test_json_is_alone_on_stdout(command: str, folder: Path) -> None:
    done = run(command, str(folder), "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["schema_version"] == 1


@pytest.mark.programs
@pytest.mark.parametrize(
    ("command", "environment"), [("recommend", {}), ("analyze", {"NO_COLOR": "1"}), ("analyze", {"TERM": "dumb"})]
)
def test_a_pipe_gets_no_escape_codes(folder: Path, command: str, environment: dict[str, str]) -> None:
    done = run(command, str(folder), **environment)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.programs
def test_a_reader_that_goes_away_early_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m tracelens analyze {folder} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == "" and done.stdout.strip().endswith("0")


@pytest.mark.programs
def test_names_that_the_terminal_cannot_show_do_not_break_the_output(folder: Path) -> None:
    done = run("recommend", str(folder), PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stdout.isascii()
    assert "  | 23  " in done.stdout and "#####" in done.stdout, "the bracket of waits that go together, and the bars"


@pytest.mark.parametrize(
    "words",
    [
        ["recommend", "--gain", "nan"],
        ["recommend", "--gain", "-1"],
        ["check", "run", "--max-step-ms", "nan"],
        ["check", "run", "--max-idle-share", "inf"],
        ["recommend", "--weights", "risk=5,risk=6"],
        ["recommend", "--interval", "9" * 20],
        ["verify", "--budget", "0s"],
        ["verify", "--budget", "9" * 400 + "h"],
        ["verify", "--all", "--scheme", "event-sync"],
        ["verify", "train.py"],
    ],
)
def test_numbers_and_combinations_without_sense_are_wrong_usage(
    words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["analyze", ""], ["recommend", ""], ["report", "", "-o", "x"], ["check", "", "--max-step-ms", "1"],
        ["apply", ""], ["compare", "", ""], ["report", "-o", ""], ["revert", ""],
        ["check", "run", "-o", "", "--max-step-ms", "1"],
        ["annotate", "x", "-o", ""], ["check", "run", "--baseline", ""],
    ],
)  # fmt: skip
def test_an_empty_name_is_a_variable_that_was_not_set(
    words: Sequence[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "it is empty: is a variable not set?" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.programs
def test_a_folder_that_was_removed_under_us_is_no_bug(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    line = f"mkdir {gone} && cd {gone} && rmdir {gone} && PYTHONPATH={ROOT} {sys.executable} -m tracelens"
    for words, code in (("rules -q", 0), ("analyze", 4), ("doctor -q", 1)):
        done = subprocess.run(["bash", "-c", f"{line} {words}"], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


def test_a_path_that_no_file_system_takes_is_unreadable_input(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("analyze", "recommend", "report", "apply", "verify", "revert"):
        assert main([command, "x" * 300]) == 4, command
        assert "hint: " in capsys.readouterr().err


def test_a_run_beside_a_trace_is_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = next(folder.glob("rank0/*.gz"))
    assert main(["analyze", str(trace), str(folder)]) == 2
    assert "beside others" in capsys.readouterr().err


def test_control_characters_of_a_path_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "no\x1b[31m\x9bsuch\u202e.json"]) == 4
    said = capsys.readouterr().err
    assert "\\x1b[31m\\x9bsuch\\x202e.json" in said and said.replace("\n", "").isprintable()


def test_json_is_ascii_so_that_no_terminal_acts_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = cases.trace(tmp_path / "name\x9b\u202e.json")
    assert main(["analyze", str(trace), "--format", "json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii() and "\u202e" in json.dumps(json.loads(out), ensure_ascii=False)


@pytest.mark.programs
@pytest.mark.parametrize(
    ("redirection", "code"), [(">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), (">/dev/full", 1), ("2>/dev/full", 0)]
)
def test_streams_that_are_closed_or_full_leave_no_traceback(folder: Path, redirection: str, code: int) -> None:
    command = f"{sys.executable} -m tracelens analyze {folder} {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and ("No space left" in done.stderr) == (code == 1)


def test_what_the_system_refuses_is_no_bug(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracelens import pipeline

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "some/file")

    monkeypatch.setattr(pipeline, "diagnose", full)
    assert main(["analyze", str(folder)]) == 1
    said = capsys.readouterr().err
    assert "some/file: No space left on device" in said and "Traceback" not in said
