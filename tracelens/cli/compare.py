"""`tracelens compare`: what changed between two versions of a loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import ComparisonAnswer, render
from tracelens.errors import InputError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.model import Diagnosis

GATE = {"not slower": 0, "slower": 1, "inconclusive": 3}
FIELDS = ("device", "world-size", "torch", "batch")


@click.command(short_help="What changed between two runs.")
@click.argument("base", type=options.INPUT)
@click.argument("new", type=options.INPUT)
@click.option("--gate", is_flag=True, help="Exit with 1 when NEW is slower, 3 when that cannot be told.")
@click.option(
    "--despite",
    type=options.ChoiceWithSuggestion(FIELDS),
    multiple=True,
    help="Compare although this differs; may be given several times.",
)
@options.presented("compare")
def compare(base: Path, new: Path, gate: bool, despite: tuple[str, ...], shown: Presentation) -> int:
    """What changed from BASE to NEW: step time with its interval, parts of the step, waits per line, findings.

    Each is a run, a trace, or a folder of runs: several starts of one script, which tell how much it varies.
    """
    from tracelens.report import compare as comparing
    from tracelens.report import next_commands

    before, after = _starts(base), _starts(new)
    comparison = comparing.compare_diagnoses(before, after, despite)
    last = after[-1].run
    next_command = next_commands.line(
        "recommend", next_commands.named(new if last is None or len(after) == 1 else last.path)
    )
    failed = gate and bool(GATE[comparison.judgment])
    output.result(
        render(shown.renderer.comparison, ComparisonAnswer(comparison, after[-1], next_command, failed), shown)
    )
    return GATE[comparison.judgment] if gate else 0


def _starts(path: Path) -> tuple[Diagnosis, ...]:
    """One Diagnosis, or one per run of a folder that holds several."""
    from tracelens import pipeline
    from tracelens import run as runs

    inside = sorted(entry for entry in path.iterdir() if runs.is_run(entry)) if path.is_dir() else []
    if not inside or runs.is_run(path):
        return (pipeline.diagnose(options.opened((path,))),)
    complete = [folder for folder in inside if runs.read(folder).complete]
    if not complete:
        raise InputError(
            say("no run in {path} is complete", path=path), hint=say("record again: tracelens profile SCRIPT")
        )
    return tuple(pipeline.diagnose(options.opened((folder,))) for folder in complete)
