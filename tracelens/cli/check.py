"""`tracelens check`: is a run within its budgets, and does it show nothing new? For CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.json import dumped
from tracelens.cli.renderers.renderer import GateAnswer, render
from tracelens.errors import UsageError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.pipeline import Examined
    from tracelens.report.budget import BudgetResult
    from tracelens.report.gate import Gate

EVIDENCE = "check.json"
EXIT = {True: 0, False: 1, None: 3}


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """The most that is allowed; None is no limit."""

    syncs: float | None = None
    exposed: float | None = None
    idle: float | None = None
    step: float | None = None


@dataclass(frozen=True, slots=True)
class BaselineOptions:
    """What is held against the baseline, and what is let pass."""

    baseline: Path | None = None
    allow: tuple[str, ...] = ()
    least_share: float = 0.02


def _places(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for entry in value:
        if not entry.strip().removeprefix("./").partition(":")[0]:
            raise click.BadParameter(say("{entry!r} is not FILE:LINE or FILE", entry=entry), context, parameter)
    return value


budgets = options.bundled(
    "limits",
    BudgetOptions,
    click.option(
        "--max-syncs-per-step", "syncs", type=options.NonNegativeNumber(), help="Waits of the host for the GPU."
    ),
    click.option(
        "--max-exposed-ms", "exposed", type=options.NonNegativeNumber(), help="What all waits together cost a step."
    ),
    click.option("--max-idle-share", "idle", type=options.NonNegativeNumber(1), help="Idle share of the GPU, 0 to 1."),
    click.option(
        "--max-step-ms", "step", type=options.NonNegativeNumber(), help="Step time, unprofiled where recorded."
    ),
)
terms = options.bundled(
    "terms",
    BaselineOptions,
    click.option(
        "--baseline", type=options.INPUT, help="An analysis.json: findings that it has do not fail, only new ones do."
    ),
    click.option(
        "--allow",
        multiple=True,
        callback=_places,
        metavar="FILE:LINE",
        help="Waits and findings at this place are let pass (FILE alone: anywhere in it); may be given several times.",
    ),
    click.option(
        "--new-share",
        "least_share",
        type=options.NonNegativeNumber(1),
        default=0.02,
        show_default=True,
        help="A new finding fails from this share of the step on; below it comes and goes with the noise.",
    ),
)


@click.command(short_help="CI gate: budgets on waits, idle, step time; new findings.")
@click.argument("path", metavar="RUN", type=options.INPUT)
@budgets
@terms
@click.option("-o", "out", type=options.OutputPath(folder=True), help="Where the evidence goes.  [default: the run]")
@options.presented("check")
def check(path: Path, limits: BudgetOptions, terms: BaselineOptions, out: Path | None, shown: Presentation) -> int:
    """Exit with 1 when RUN exceeds a budget or shows a new finding, 3 when a budget cannot be judged.

    analysis.json, report.html and check.json are written before that, so that a failed job has them to show.
    """
    from tracelens import pipeline
    from tracelens.report import formatting, gate, next_commands

    if limits == BudgetOptions() and terms.baseline is None:
        raise UsageError(
            say("there is neither a budget nor a baseline to check against"),
            hint=say("such as: tracelens check RUN --max-syncs-per-step 1, or --baseline analysis.json"),
        )
    baseline = None if terms.baseline is None else gate.read_baseline(terms.baseline)
    examined = pipeline.examine(options.opened((path,)))
    result = gate.judge(
        examined.diagnosis, _items(examined, limits, terms.allow), terms.allow, baseline, terms.least_share
    )
    for name in _evidence(examined, result, out):
        if not shown.quiet:
            output.note(say("written: {paths}", paths=output.shown(name)))
    for entry in result.unused if shown.form != "text" else ():
        output.note(
            say(
                "note: the allow-list's {entry} allows nothing here: has the line moved?", entry=formatting.clean(entry)
            )
        )
    answer = GateAnswer(result, examined.diagnosis, next_commands.line("recommend", next_commands.named(path)))
    output.result(render(shown.renderer.gate, answer, shown))
    return EXIT[result.passed]


def _items(examined: Examined, limits: BudgetOptions, allowed: Sequence[str]) -> tuple[BudgetResult, ...]:
    from tracelens import pipeline
    from tracelens.report import budget, gate

    passed = gate.allowed_waits(examined.diagnosis, allowed)
    counted = [stall.id for stall in examined.diagnosis.stalls if stall.id not in passed]
    together = pipeline.exposed_together(examined, counted if passed else None)
    wanted = budget.Budgets(limits.syncs, limits.exposed, limits.idle, limits.step)
    return budget.judge_budgets(examined.diagnosis, wanted, together, passed)


def _evidence(examined: Examined, result: Gate, out: Path | None) -> tuple[Path, ...]:
    """The files a failed job is looked into with; nothing for a bare trace without a folder to write to."""
    from tracelens import pipeline
    from tracelens import run as runs
    from tracelens.report import gate, html
    from tracelens.report import json as json_report

    folder = out or (examined.diagnosis.run.path if examined.diagnosis.run else None)
    if folder is None:
        return ()
    with output.progress(say("writing the evidence")):
        diagnosis = pipeline.illustrate(examined, pipeline.plan(examined))
        files = {
            EVIDENCE: dumped(gate.document(result)) + "\n",
            runs.ANALYSIS_FILE: json_report.dumps(diagnosis),
            runs.REPORT_FILE: html.render(diagnosis),
        }
        try:
            for name, text in files.items():
                runs.write_output(folder / name, text.encode(errors="backslashreplace"))
        except UsageError as error:
            if out is not None:  # asked for by name; a run that is only to be read still gets its verdict
                raise
            output.note(say("note: {message}", message=error.message))
            return ()
    return tuple(folder / name for name in files)
