"""[tool.tracelens]: what it may say, who wins over it, and how a mistake in it is answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import run_cases as cases
from tests.support.places import ROOT
from tracelens import cli
from tracelens.cli import config, main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cases.recorded(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrote(project: Path, text: str) -> Path:
    path = project / "pyproject.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read(project: Path, text: str) -> dict[str, dict[str, object]]:
    return config.defaults(wrote(project, text), cli.root.commands)


def plan(capsys: Capture, *words: str) -> dict[str, object]:
    assert main(["recommend", "--format", "json", *words]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


# ---------------------------------------------------------------------------------------------------- what it does


def test_a_key_for_all_commands_reaches_those_that_have_the_option(project: Path) -> None:
    found = read(project, "[tool.tracelens]\ninterval = 5\n")
    reached = {name for name, values in found.items() if values}
    assert reached == {"recommend", "report", "apply", "fix", "verify", "try"}
    assert found["apply"] == {"interval": "5"}


def test_the_table_of_a_command_wins_over_the_one_for_all(project: Path) -> None:
    found = read(project, "[tool.tracelens]\ninterval = 5\n[tool.tracelens.apply]\ninterval = 7\n")
    assert found["apply"]["interval"] == "7" and found["verify"]["interval"] == "5"


@pytest.mark.slow
def test_command_line_over_environment_over_file(
    project: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def risk(*words: str) -> object:
        sensitivity = plan(capsys, *words)["sensitivity"]
        assert isinstance(sensitivity, dict)
        return round(sensitivity["weights"]["risk"])

    assert risk() == 5
    wrote(project, "[tool.tracelens]\nweights = { risk = 20 }\n")
    assert risk() == 20
    monkeypatch.setenv("TRACELENS_RECOMMEND_WEIGHTS", "risk=30")
    assert risk() == 30
    assert risk("--weights", "risk=40") == 40


@pytest.mark.slow
def test_budgets_and_the_allow_list_of_a_gate(project: Path, capsys: Capture) -> None:
    run = str(next((project / "tracelens-runs").iterdir()))
    wrote(project, "[tool.tracelens.check]\nmax-syncs-per-step = 1\n")
    assert main(["check", run]) == 1
    wrote(project, f'[tool.tracelens.check]\nmax-syncs-per-step = 1\nallow = ["train.py:{cases.SYNC_LINE}"]\n')
    assert main(["check", run]) == 0
    assert main(["check", run, "--max-syncs-per-step", "0"]) == 1
    capsys.readouterr()


def test_the_nearest_file_with_our_table_counts_and_its_paths_are_its_own(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote(project, '[tool.tracelens.check]\nbaseline = "ci/base.json"\n')
    inner = project / "a" / "b"
    inner.mkdir(parents=True)
    (project / "a" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert config.nearest(inner) == project / "pyproject.toml"
    found = config.defaults(project / "pyproject.toml", cli.root.commands)
    assert found["check"]["baseline"] == str(project / "ci" / "base.json")


def test_a_format_is_for_the_commands_that_have_it(project: Path) -> None:
    found = read(project, '[tool.tracelens]\nformat = "markdown"\n')
    assert found["analyze"]["form"] == "markdown" and "form" not in found["apply"]


def test_every_key_that_the_documentation_lists_is_accepted(project: Path) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    block = text.split("```toml\n", 1)[1].split("```", 1)[0]
    found = read(project, block)
    assert found["check"]["allow"] and found["recommend"]["interval"]


def test_somebody_elses_broken_file_stops_nobody(project: Path) -> None:
    wrote(project, "[tool.black\nline = ")
    assert main(["rules", "-q"]) == 0
    wrote(project, "[tool.tracelens\n")
    assert main(["rules", "-q"]) == 2


# -------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.tracelens]\nintervall = 5\n", "[tool.tracelens] has no key 'intervall'. Did you mean 'interval'?"),
        ("[tool.tracelens.check]\nmax_syncs_per_step = 5\n", "Did you mean 'max-syncs-per-step'?"),
        ("[tool.tracelens.chekc]\nallow = []\n", "has no key 'chekc'. Did you mean 'check'?"),
        ('[tool.tracelens]\nsource = "projekt"\n', "Did you mean 'project'?"),
        ('[tool.tracelens]\nformat = "jsn"\n', "Did you mean 'json'?"),
        ("[tool.tracelens]\ninterval = 0\n", "[tool.tracelens] interval: 0 is not in the range"),
        ('[tool.tracelens]\ninterval = "often"\n', "interval: 'often' is not a valid integer"),
        ("[tool.tracelens]\ninterval = true\n", "interval should be one value, but is True"),
        ("[tool.tracelens]\ninterval = [1]\n", "interval should be one value, but is [1]"),
        ("[tool.tracelens]\nquiet = 3\n", "quiet should be true or false, but is 3"),
        ('[tool.tracelens.check]\nallow = "train.py"\n', "allow is not a list"),
        ("[tool.tracelens.check]\nallow = [[1]]\n", "allow should be one value, but is [1]"),
        ("[tool.tracelens.check]\nmax-step-ms = nan\n", "is not a number"),
        ('[tool.tracelens]\nweights = "speed"\n', "'speed' is not CRITERION=PERCENT"),
        ('[tool.tracelens.verify]\nbudget = "soon"\n', "'soon' is not a time such as 10m"),
        ("[tool.tracelens]\nsteps = 9\n", "steps means different things to profile, verify"),
        ("[tool.tracelens.apply]\ndry-run = true\n", "has no key 'dry-run'"),
        ("[tool]\ntracelens = 3\n", "[tool.tracelens] is not a table"),
        ('[tool.tracelens.check]\nbaseline = ""\n', "baseline: it is empty"),
        ('[tool.tracelens.check]\nallow = [""]\n', "'' is not FILE:LINE or FILE"),
        ("[tool.tracelens.check]\nallow = 1979-05-27\n", "allow is not a list"),
        ("[tool.tracelens]\nweights = { risk = {} }\n", "is not CRITERION=PERCENT"),
        ('[tool.tracelens]\n"" = 1\n', "has no key ''"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_key_and_the_nearest_name(
    text: str, said: str, project: Path, capsys: Capture
) -> None:
    wrote(project, text)
    assert main(["recommend"]) == 2
    streams = capsys.readouterr()
    assert said in streams.err and "pyproject.toml" in streams.err and "hint: " in streams.err
    assert streams.out == "" and "Traceback" not in streams.err


@pytest.mark.programs
def test_a_mistake_does_not_break_help_or_completion(project: Path, capsys: Capture) -> None:
    wrote(project, "[tool.tracelens]\nintervall = 5\n")
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    capsys.readouterr()
    done = complete("tracelens rules ev", cwd=project)
    assert "event-interval" in done


def test_a_variable_that_is_no_option_does_no_harm(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("TRACELENS_VERSION", "1.2")
    monkeypatch.setenv("TRACELENS_HELP", "1")
    assert main(["rules", "-q"]) == 0
    assert "event-interval" in capsys.readouterr().out


def test_a_bad_variable_is_wrong_usage(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("TRACELENS_RECOMMEND_INTERVAL", "often")
    assert main(["recommend"]) == 2
    assert "'often' is not a valid integer" in capsys.readouterr().err


def test_options_of_one_name_mean_one_thing_or_are_kept_apart() -> None:
    """`quiet` and `format` are worded per command, and mean the same; a new pair like `steps` must be declared."""
    meanings: dict[str, set[str | None]] = {}
    for command in cli.root.commands.values():
        for name, option in config._options(command):
            meanings.setdefault(name, set()).add(option.help)
    assert {name for name, helps in meanings.items() if len(helps) > 1} <= config.AMBIGUOUS | {"quiet", "format"}


# ------------------------------------------------------------------------------------------------------ completion


def complete(line: str, cwd: Path) -> str:
    """What bash would be offered for the last word of the line."""
    words = line.split(" ")
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        "_TRACELENS_COMPLETE": "bash_complete",
    }  # fmt: skip
    code = "from tracelens.cli import root; root.main(prog_name='tracelens')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.programs
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tracelens rec", "plain,recommend"),
        ("tracelens apply --sch", "plain,--scheme"),
        ("tracelens apply --scheme event-i", "plain,event-interval"),
        ("tracelens report --format mark", "plain,markdown"),
        ("tracelens completion f", "plain,fish"),
        ("tracelens analyze ", "plain,tracelens-runs/20260101-000000-train-made"),
        ("tracelens analyze nowhere", "file,nowhere"),
    ],
)
def test_completion_offers(line: str, offered: str, project: Path) -> None:
    assert offered in complete(line, project).splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_the_answer_alone_on_stdout(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    streams = capsys.readouterr()
    assert f"_TRACELENS_COMPLETE={shell}_complete" in streams.out and "to have it in every shell" in streams.err
    assert "to have it" not in streams.out


@pytest.mark.programs
def test_bash_accepts_the_script_and_completes_with_it(project: Path, capsys: Capture) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    tool = project / "bin"
    tool.mkdir()
    (tool / "tracelens").write_text(f'#!/bin/sh\nexec {sys.executable} -m tracelens "$@"\n')
    (tool / "tracelens").chmod(0o755)
    driver = (
        f"{script}\nCOMP_WORDS=(tracelens ver); COMP_CWORD=1; _tracelens_completion tracelens; echo ${{COMPREPLY[@]}}"
    )
    path = f"{tool}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", driver], env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, cwd=project,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["verify"], done.stderr


def test_a_shell_we_do_not_know(capsys: Capture) -> None:
    assert main(["completion", "bsh"]) == 2
    assert "Did you mean 'bash'?" in capsys.readouterr().err
