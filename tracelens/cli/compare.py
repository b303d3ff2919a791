"""`tracelens compare`: what changed between two versions of a loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output, present
from tracelens.cli.options import Presentation
from tracelens.errors import InputError
from tracelens.jsonfile import microseconds

if TYPE_CHECKING:
    from tracelens.model import Diagnosis
    from tracelens.report.compare import Comparison, TimeChange

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
@options.presented(*options.FORMATS)
def compare(base: Path, new: Path, gate: bool, despite: tuple[str, ...], shown: Presentation) -> int:
    """What changed from BASE to NEW: step time with its interval, parts of the step, waits per line, findings.

    Each is a run, a trace, or a folder of runs: several starts of one script, which tell how much it varies.
    """
    from tracelens.report import compare as comparing
    from tracelens.report import compare_text, next_commands

    before, after = _starts(base), _starts(new)
    found = comparing.compare_diagnoses(before, after, despite)
    last = after[-1].run
    next_command = next_commands.line("recommend", str(new if last is None or len(after) == 1 else last.path))
    if shown.form == "text":
        output.result(found.verdict if shown.quiet else compare_text.comparison(found, shown.look(), next_command))
    else:
        output.result(_rendered(found, after[-1], shown.form, next_command, failed=gate and bool(GATE[found.judgment])))
    return GATE[found.judgment] if gate else 0


def _starts(path: Path) -> tuple[Diagnosis, ...]:
    """One Diagnosis, or one per run of a folder that holds several."""
    from tracelens import pipeline
    from tracelens import run as runs

    inside = sorted(entry for entry in path.iterdir() if runs.is_run(entry)) if path.is_dir() else []
    if not inside or runs.is_run(path):
        return (pipeline.diagnose(options.opened((path,))),)
    complete = [folder for folder in inside if runs.read(folder).complete]
    if not complete:
        raise InputError(f"no run in {path} is complete", hint="record again: tracelens profile train.py")
    return tuple(pipeline.diagnose(options.opened((folder,))) for folder in complete)


def _rendered(found: Comparison, new: Diagnosis, form: str, next_command: str, *, failed: bool) -> str:
    from tracelens.report import github, markdown

    if form == "json":
        return present.dumped(_document(found))
    if form == "markdown":
        return markdown.comparison(found, next_command)
    if form == "github":
        return github.render(found.verdict, found.issues, failed=failed)
    return present.scan(new, found.issues, compared=True)


def _document(found: Comparison) -> dict[str, Any]:
    from tracelens.report.gate import issue_document

    ratio = found.ratio
    return {
        "schema_version": 1,
        "verdict": found.verdict,
        "judgment": found.judgment,
        "obstacles": list(found.obstacles),
        "base_us": found.base_ns / 1000,
        "new_us": found.new_ns / 1000,
        "base_starts_us": [ns / 1000 for ns in found.base_starts_ns],
        "new_starts_us": [ns / 1000 for ns in found.new_starts_ns],
        "basis": "unprofiled" if found.unprofiled else "profiled",
        "ratio": {"value": ratio.value, "low": ratio.low, "high": ratio.high} if ratio else None,
        "parts": {change.name: change.delta_ns / 1000 for change in found.parts},
        "waits": [_wait(change) for change in found.waits],
        "new_findings": [issue_document(issue) for issue in found.appeared],
        "gone_findings": [issue_document(issue) for issue in found.vanished],
    }


def _wait(change: TimeChange) -> dict[str, Any]:
    return {
        "place": change.name,
        "state": change.state,
        "base_us": microseconds(change.base_ns),
        "new_us": microseconds(change.new_ns),
        "base_exposed_us": microseconds(change.base_exposed_ns),
        "new_exposed_us": microseconds(change.new_exposed_ns),
        "base_lines": list(change.base_lines),
        "new_lines": list(change.new_lines),
    }
