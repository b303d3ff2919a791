"""`tracelens try`: levers switched on in fresh processes, measured, ranked, and combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, planned, planning, typed
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.cli.verify import seconds
from tracelens.errors import InputError, UsageError

if TYPE_CHECKING:
    from tracelens.lever_trials import LeverOutcome, LeverPlan
    from tracelens.model import Lever, LeverState, PlannedDiagnosis

EXIT_NOTHING, EXIT_INTERRUPTED = 3, 130


class ScriptArgumentsCommand(click.Command):
    """A command whose words after `--` belong to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:cut])
        ctx.params["script_words"] = tuple(args[cut + 1 :])
        return rest


@dataclass(frozen=True, slots=True)
class Words:
    """What was typed: what to measure, and which levers."""

    subject: Path | None
    levers: tuple[str, ...]


@click.command(
    "try", cls=ScriptArgumentsCommand, short_help="Measure levers on copies of the script, rank and combine them."
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

    asked = _words(words)
    levers = rules.load(plan_options.rules).levers
    _check_names(asked, levers)
    folder = _folder(asked.subject, script_words, shown)
    diagnosis = planned((folder,), plan_options)
    what = lever_trials.plan(diagnosis, levers, asked.levers)
    say = _silence if shown.quiet else output.note
    if what.trials and not shown.quiet:
        _announce(what, budget)
    outcome = lever_trials.run_plan(diagnosis, what, lever_trials.LeverOptions(budget, seed, say))
    after = planned((folder,), plan_options)
    _answer(after, what, outcome, shown, typed((folder,), plan_options))
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    tried = {one.trial.id for one in (*what.known, *what.left_out)} | set(outcome.tried)
    measured = any(lever.id in tried and lever.measured is not None for lever in after.levers)
    settled = all(one.standing in ("already", "refused", "unused") for one in what.left_out) and not outcome.tried
    return 0 if measured or (settled and what.left_out) else EXIT_NOTHING


def _words(words: Sequence[str]) -> Words:
    """The first word is a run or a script if that path exists, else a lever."""
    if words and (Path(words[0]).exists() or words[0].endswith(".py")):
        path = Path(words[0])
        if not path.exists():
            near = options.did_you_mean(path.name, [one.name for one in path.parent.glob("*.py")])
            raise InputError(f"no such script: {path}.{near}", hint="give the path of a training script, or a run")
        return Words(path, tuple(words[1:]))
    return Words(None, tuple(words))


def _check_names(asked: Words, levers: Sequence[Any]) -> None:
    """An unknown lever is told before anything is recorded."""
    from tracelens.lever_trials import ALL
    from tracelens.levers.chosen import chosen

    for word in asked.levers:
        if word != ALL:
            chosen(word, levers, options.SCHEMES)
    if ALL in asked.levers and len(asked.levers) > 1:
        raise UsageError("`all` and names of levers exclude each other", hint="leave one of them out")


def _folder(subject: Path | None, script_words: tuple[str, ...], shown: Presentation) -> Path:
    """The run that was named, or the newest, or a new one of the script."""
    from tracelens import run as runs

    if subject is None or runs.is_run(subject):
        if script_words:
            raise UsageError(
                "a run has the arguments that it was recorded with", hint="give a script to record it with others"
            )
        return options.run_folder(subject)
    return _recorded(subject, script_words, shown)


def _recorded(script: Path, words: tuple[str, ...], shown: Presentation) -> Path:
    """A new run of the script, which ends when its window has closed; what it prints goes to stderr."""
    from tracelens.capture.supervisor import recording

    if not shown.quiet:
        output.note(f"tracelens: recording {script} first")
    wanted = recording.ProfileOptions(kind="script", words=(str(script), *words), stop_after_window=True)
    with output.stdout_on_stderr():
        outcome = recording.profile(wanted)
    if not outcome.complete:
        why = outcome.reason or f"it ended with {outcome.status}"
        raise InputError(f"{script} could not be recorded: {why}", hint="does it run by hand, and train?")
    return outcome.folder


def _announce(what: LeverPlan, budget: float) -> None:
    names = ", ".join(trial.id for trial in what.trials)
    minutes = f"{budget / 60:.0f} min" if budget >= 120 else f"{budget:.0f} s"
    output.note(f"Measuring: {names}. Your files stay as they are.\nUp to {minutes}: original and levers in turns.\n")


def _answer(
    diagnosis: PlannedDiagnosis, what: LeverPlan, outcome: LeverOutcome, shown: Presentation, where: tuple[str, ...]
) -> None:
    from tracelens.report import json as json_report
    from tracelens.report import lever_table, next_commands

    ids = {one.trial.id for one in (*what.known, *what.left_out)} | set(outcome.tried)
    trial = lever_table.TrialOfLevers(
        levers=_with_left_out(diagnosis.levers, what),
        combination=diagnosis.combination,
        base_ns=outcome.record.base_ns,
        shown=ids,
        warning=_warning(diagnosis),
        interrupted=outcome.interrupted,
    )
    after = next_commands.line(*_next(diagnosis, where))
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
    return None if setting is None else f"{setting.missing[:1].upper()}{setting.missing[1:]}. {setting.hint}"


def _next(diagnosis: PlannedDiagnosis, where: tuple[str, ...]) -> tuple[str, ...]:
    """What writes the best lever, where a patch does and its results are the same; else everything that is known."""
    best = diagnosis.combination
    alone = best.levers[0] if best is not None and best.numbers == "same" and len(best.levers) == 1 else None
    command = next((lever.command for lever in diagnosis.levers if lever.id == alone), None)
    if command is None or command.startswith("try "):
        return ("recommend", *where)
    return (*command.split(), *where)


def _silence(_: str) -> None:
    """Progress with -q: nothing is printed."""
