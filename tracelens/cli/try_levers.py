"""`tracelens try`: levers switched on in fresh processes, measured, ranked, and combined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tracelens import lever_names
from tracelens.cli import options, output, subjects
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, pipeline_options, planned, planning, typed
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.cli.verify import seconds
from tracelens.messages import capital, joined, say

if TYPE_CHECKING:
    from tracelens.lever_trials import LeverOutcome, LeverPlan
    from tracelens.model import Lever, LeverState, MedianPair, PlannedDiagnosis
    from tracelens.verify.lever_trial import LeverMeasurement

EXIT_NOTHING, EXIT_INTERRUPTED = 3, 130
USUAL_MINUTES = 10
"""As --budget has it by default."""


@click.command(
    "try",
    cls=subjects.ScriptArgumentsCommand,
    short_help="Measure levers on copies of the script, rank and combine them.",
)
@click.argument("words", metavar="[RUN|SCRIPT] [LEVER...|all] [-- ARGS]...", nargs=-1)
@click.option("--budget", callback=seconds, default="10m", show_default=True, help="Time to spend at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed that all runs get.")
@planning
@options.presented("try")
def try_levers(
    *,
    words: Sequence[str],
    budget: float,
    seed: int,
    plan_options: PlanOptions,
    shown: Presentation,
    script_words: tuple[str, ...] = (),
) -> int:
    """Switch levers on in fresh processes, the original in turns beside them; your files stay as they are.

    Without a LEVER, those that this run suggests; `all` tries everything; `workers=4` one value.
    """
    from tracelens import lever_trials
    from tracelens.schemes import rules

    asked = subjects.words_of(words)
    levers = rules.load(plan_options.rules).levers
    subjects.check_names(asked, levers)
    folder = subjects.run_to_work_on(asked.subject, script_words, shown)
    diagnosis = planned((folder,), plan_options)
    what = lever_trials.plan(diagnosis, levers, asked.levers)
    tell = _silence if shown.quiet else output.note
    if what.trials and not shown.quiet:
        _announce(what, budget)
    wanted = lever_trials.LeverOptions(budget, seed, tell, tell, pipeline_options(plan_options))
    outcome = lever_trials.run_plan(diagnosis, what, wanted)
    after = planned((folder,), plan_options)
    _answer(after, what, outcome, shown, typed((folder,), plan_options), budget)
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    tried = {one.trial.id for one in (*what.known, *what.left_out)} | set(outcome.tried)
    measured = any(lever.id in tried and lever.measured is not None for lever in after.levers)
    settled = all(one.standing in ("already", "refused", "unused") for one in what.left_out) and not outcome.tried
    return 0 if measured or (settled and what.left_out) else EXIT_NOTHING


def _announce(what: LeverPlan, budget: float) -> None:
    names = joined(", ", (lever_names.with_id(trial.id) for trial in what.trials))
    minutes = f"{budget / 60:.0f} min" if budget >= 120 else f"{budget:.0f} s"
    output.note(
        say(
            "Measuring: {names}. Your files stay as they are.\nUp to {minutes}: original and levers in turns.\n",
            names=names,
            minutes=minutes,
        )
    )


def _answer(
    diagnosis: PlannedDiagnosis,
    what: LeverPlan,
    outcome: LeverOutcome,
    shown: Presentation,
    where: tuple[str, ...],
    budget: float,
) -> None:
    from tracelens.report import json as json_report
    from tracelens.report import lever_table, next_commands

    ids = {one.trial.id for one in (*what.known, *what.left_out)} | set(outcome.tried)
    trial = lever_table.TrialOfLevers(
        levers=_with_left_out(diagnosis.levers, what),
        combination=diagnosis.combination,
        shown=ids,
        warning=_warning(diagnosis),
        interrupted=outcome.interrupted,
        apart=outcome.apart,
        interval=diagnosis.interval,
        begun={one.trial.id: pair for one in outcome.record.levers if one.trial.id in ids and (pair := _seen(one))},
        bands={one.trial.id: one.seed_band for one in outcome.record.levers if one.trial.id in ids and one.seed_band},
    )
    after = next_commands.line(*_next(diagnosis, where, tuple(trial.begun), budget))
    said = lambda: lever_table.verdict(trial) if shown.quiet else lever_table.text(trial, shown.style(), after)  # noqa: E731
    document = json_report.document(replace(diagnosis, levers=tuple(trial.levers)))
    output.result(render(shown.renderer.outcome, CommandOutcome(said, document), shown))


def _with_left_out(levers: Sequence[Lever], what: LeverPlan) -> list[Lever]:
    """With the reasons of what was named and could not be tried, which a run that was not written does not hold."""
    from tracelens.model import Lever

    states: dict[str, LeverState] = {"already": "done", "refused": "not_applicable", "unused": "not_applicable"}
    listed = {lever.id: lever for lever in levers}
    for one in what.left_out:
        name = one.trial.id
        lever = listed.get(name) or Lever(name, "host", "not_tried", name, "")
        listed[name] = replace(lever, state=states[one.standing], reason=one.reason, command=None, measured=None)
    return list(listed.values())


def _warning(diagnosis: PlannedDiagnosis) -> str | None:
    """What makes every number meaningless, which is said first."""
    from tracelens.findings import debug_settings

    setting = debug_settings.unjudged(diagnosis.run)
    if setting is None:
        return None
    return say("{missing}. {hint}", missing=capital(setting.missing), hint=setting.hint)


def _seen(lever: LeverMeasurement) -> MedianPair | None:
    """What the pairs of a lever say that has too few for a number."""
    from tracelens.model import MedianPair
    from tracelens.verify.compare.times import median_pair

    pair = median_pair(lever.pairs) if lever.speedup is None and lever.standing != "failed" else None
    return MedianPair(*map(round, pair)) if pair is not None else None


def _next(
    diagnosis: PlannedDiagnosis, where: tuple[str, ...], begun: tuple[str, ...], budget: float
) -> tuple[str, ...]:
    """What writes the best lever, where a patch does and its results are the same; else everything that is known. More
    time for levers that were begun, where nothing else came of it."""
    best = diagnosis.combination
    if best is None and begun:
        return ("try", *where, *begun, "--budget", f"{max(USUAL_MINUTES, math.ceil(2 * budget / 60))}m")
    commands = {lever.id: lever.command for lever in diagnosis.levers}
    if best is not None and all(commands.get(name) == f"fix {name}" for name in best.levers):
        return ("fix", *where, *best.levers)
    alone = best.levers[0] if best is not None and best.numbers == "same" and len(best.levers) == 1 else None
    command = next((lever.command for lever in diagnosis.levers if lever.id == alone), None)
    if command is None or command.startswith("try "):
        return ("recommend", *where)
    return (*command.split(), *where)


def _silence(_: str) -> None:
    """Progress with -q: nothing is printed."""
