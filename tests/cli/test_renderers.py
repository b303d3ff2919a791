"""The table of output formats: each entry serves what it says, and help, completion and docs offer just these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from tests.support import report_cases as cases
from tests.support.places import ROOT
from tracelens import cli
from tracelens.cli import renderers
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions
from tracelens.cli.renderers.renderer import (
    COMMANDS,
    AnalysisAnswer,
    CommandOutcome,
    ComparisonAnswer,
    GateAnswer,
    PlanAnswer,
    Renderer,
    RulesAnswer,
    render,
)
from tracelens.report import compare, gate
from tracelens.schemes import rules

SERVED = [(renderer, command) for renderer in renderers.RENDERERS for command in renderers.commands_of(renderer)]
IDS = [f"{renderer.name}-{command}" for renderer, command in SERVED]


def answers() -> Mapping[str, object]:
    """One answer of each kind."""
    base, new = cases.diagnosis(findings=()), cases.recommended()
    loaded = rules.load()
    return {
        "analysis": AnalysisAnswer(base, ()),
        "plan": PlanAnswer(new, (), PlanOptions()),
        "page": PlanAnswer(new, (), PlanOptions()),
        "comparison": ComparisonAnswer(compare.compare_diagnoses(base, new), new, "tracelens recommend", failed=False),
        "gate": GateAnswer(gate.judge(new, (), (), (), 0.02), new, "tracelens recommend"),
        "rules": RulesAnswer(loaded, None, ()),
        "outcome": CommandOutcome(lambda: "done", {"outcome": "done"}),
    }


def form(command: str) -> click.Parameter:
    return next(option for option in cli.root.commands[command].params if option.name == "form")


def test_names_are_unique_and_every_format_serves_something() -> None:
    names = [renderer.name for renderer in renderers.RENDERERS]
    assert len(set(names)) == len(names)
    assert all(renderers.commands_of(renderer) for renderer in renderers.RENDERERS)
    assert [renderers.by_name(name) for name in names] == list(renderers.RENDERERS)


def test_every_command_with_a_format_is_in_the_table() -> None:
    with_format = {
        name for name, command in cli.root.commands.items() if any(option.name == "form" for option in command.params)
    }
    assert with_format == set(COMMANDS)


@pytest.mark.parametrize(("renderer", "command"), SERVED, ids=IDS)
def test_each_entry_makes_text_of_what_it_serves(renderer: Renderer, command: str, tmp_path: Path) -> None:
    kind = COMMANDS[command]
    out = render(getattr(renderer, kind), answers()[kind], Presentation(form=renderer.name))
    assert out.strip()


def test_only_what_serves_a_command_is_offered() -> None:
    nothing = Renderer(name="nothing", about="serves no command")
    assert renderers.commands_of(nothing) == ()
    with pytest.raises(AssertionError, match="is no format of this command"):
        render(nothing.gate, answers()["gate"], Presentation(form="nothing"))  # type: ignore[arg-type]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_docs_and_completion_offer_the_same_formats(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = f"[{'|'.join(renderers.formats(command))}]"
    whole = cli.root.commands[command].get_help(click.Context(cli.root.commands[command], terminal_width=200))
    assert f"--format {offered}" in whole
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    assert f"--format {offered}" in section
    found = ShellComplete(cli.root, {}, "tracelens", "_TRACELENS_COMPLETE").get_completions([command, "--format"], "")
    assert tuple(item.value for item in found) == renderers.formats(command)


def test_the_docs_have_a_row_for_every_format() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").partition("\n## Formats\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    assert rows == [
        (renderer.name, renderer.about, ", ".join(renderers.commands_of(renderer))) for renderer in renderers.RENDERERS
    ]
