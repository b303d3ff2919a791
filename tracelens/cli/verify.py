"""`tracelens verify`: original against patched: same results? faster? by how much?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens import lever_names
from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, chosen_scheme, patching, planned, typed
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import UsageError
from tracelens.messages import joined, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracelens.model import PlannedDiagnosis, Verification

EXIT = {"faster": 0, "no change": 0, "slower": 1, "different numbers": 1, "failed": 1, "inconclusive": 3}

DEFAULT_STEPS = 200
FEWEST_STEPS = 20
"""What `verify.policy` takes at least; a test compares them, so that --help need not load it."""


def seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """A time such as 10m, in seconds."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s*(s|m|h|)", value.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(say("{value!r} is not a time such as 10m, 90s or 1h", value=value), context, parameter)
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600, "": 1}[match[2]]


@dataclass(frozen=True, slots=True)
class Effort:
    """What a verification may cost."""

    steps: int
    budget: float
    seed: int


effort = options.bundled(
    "effort",
    Effort,
    click.option(
        "--steps",
        type=click.IntRange(min=FEWEST_STEPS),
        default=DEFAULT_STEPS,
        show_default=True,
        help="Steps per process.",
    ),
    click.option("--budget", callback=seconds, default="10m", show_default=True, help="Time to spend at most."),
    click.option("--seed", type=int, default=0, show_default=True, help="The seed that all runs get."),
)


@click.command(
    short_help="Original against patched: same results? faster?",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("words", metavar="[RUN | BEFORE.py AFTER.py [ARGS]...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--all", "every", is_flag=True, help="Each lever that a patch can be made for, side by side.")
@effort
@patching
@options.presented("verify")
def verify(words: Sequence[str], every: bool, effort: Effort, plan_options: PlanOptions, shown: Presentation) -> int:
    """Run original and patched in fresh processes, alternating, in a working copy; your files stay as they are.

    Two scripts instead of a run compare a change made by hand.
    """
    from tracelens import trials
    from tracelens.report import next_commands, wording

    if every and plan_options.scheme is not None:
        raise UsageError(say("--all and --lever exclude each other"), hint=say("leave one of them out"))
    tell = _silence if shown.quiet else output.note
    trial_options = trials.TrialOptions(effort.steps, effort.budget, effort.seed, tell)
    folder = None
    if len(words) >= 2 and words[0].endswith(".py"):
        if every:
            raise UsageError(
                say("--all tries the schemes of a run, and two scripts were given"), hint=say("leave --all out")
            )
        measured = trials.verify_scripts(Path(words[0]), Path(words[1]), tuple(words[2:]), trial_options)
        after = _after_scripts(words, measured[0])
    else:
        if len(words) > 1 or (words and words[0].endswith(".py")):
            raise UsageError(
                say("verify takes one run, or two scripts"), hint="tracelens verify BEFORE.py AFTER.py [ARGS]"
            )
        folder = options.run_folder(Path(words[0]) if words else None)
        diagnosis = planned((folder,), plan_options)
        names = _names(diagnosis, plan_options.scheme, every)
        if not names:
            after = next_commands.next_command(diagnosis, typed((folder,), plan_options))
            _nothing(wording.verdict(diagnosis), shown, after)
            return 0
        measured = trials.verify_schemes(diagnosis, names, trial_options)
        after = _after_run(folder, measured, plan_options, effort)
    ranked = planned((folder,), plan_options) if every and folder else None
    answer = CommandOutcome(lambda: _text(measured, ranked, shown, after, every=every), _document(measured, ranked))
    output.result(render(shown.renderer.outcome, answer, shown))
    return max(EXIT[trial.outcome] for trial in measured)


def _after_run(folder: Path, measured: Sequence[Verification], plan_options: PlanOptions, effort: Effort) -> str:
    """The next command: `revert` where the applied patch was measured to be wrong or slower; the same again, for
    longer, where it was too short; `apply` where it is faster and in no file yet; else `report`."""
    from tracelens import run as runs
    from tracelens.report import next_commands

    applied = runs.applied_patch(folder / runs.BACKUP_FOLDER)
    if applied is not None and any(
        trial.scheme == applied.scheme and next_commands.unwanted(trial) for trial in measured
    ):
        return next_commands.line("revert", next_commands.folder(folder))
    words = typed((folder,), plan_options)
    only = measured[0] if len(measured) == 1 else None
    if only is not None and only.outcome == "inconclusive" and only.numbers_equal:
        return _again(words, plan_options.scheme, effort, only)
    if only is not None and only.outcome == "faster" and applied is None:
        return next_commands.line("apply", *words, *(("--lever", plan_options.scheme) if plan_options.scheme else ()))
    return next_commands.line("report", *words)


def _again(words: Sequence[str], scheme: str | None, effort: Effort, trial: Verification) -> str:
    """The same trial with the options that were typed, and with as much time as it needs."""
    from tracelens.report import next_commands

    larger = dict(zip(*[iter(next_commands.longer(trial))] * 2, strict=True))
    if effort.steps != DEFAULT_STEPS:
        larger = {"--steps": str(effort.steps)} | larger
    if effort.seed:
        larger["--seed"] = str(effort.seed)
    chosen = ("--lever", scheme) if scheme else ()
    return next_commands.line("verify", *words, *chosen, *(word for pair in larger.items() for word in pair))


def _after_scripts(words: Sequence[str], measured: Verification) -> str:
    """The next command: `verify` again where the numbers differ (after a correction by hand) or, for longer, where the
    trial decided nothing; else `profile` of the new version."""
    from tracelens.report import next_commands

    before, after, *arguments = words
    again = (before, after, *(("--", *arguments) if arguments else ()))
    if measured.outcome in ("different numbers", "failed"):
        output.note(
            say(
                "{after} has to be mended before it can take the place of {before}; then compare again",
                after=after,
                before=before,
            )
        )
        return next_commands.line("verify", *again)
    if measured.outcome == "inconclusive":
        return next_commands.line("verify", *next_commands.longer(measured), *again)
    return next_commands.line("profile", after, *arguments)


def _text(
    measured: Sequence[Verification], ranked: PlannedDiagnosis | None, shown: Presentation, after: str, *, every: bool
) -> str:
    from tracelens.report import text, wording

    if shown.quiet:
        said: str = say("{lines}\n", lines=joined("\n", (_line(trial, every) for trial in measured)))
    else:
        said = text.verification(measured, shown.style(), after)
    if ranked is None:
        return said
    told = any(trial.ratio is not None for trial in measured)
    verdict = wording.verdict(ranked)
    if told:
        return say("{said}With these measurements: {verdict}", said=said, verdict=verdict)
    return say("{said}No speed was measured: {verdict}", said=said, verdict=verdict)


def _line(trial: Verification, every: bool) -> str:
    if not every or trial.scheme is None:
        return trial.verdict
    name = lever_names.with_id(trial.scheme, trial.details.get("interval"))
    return say("{lever}: {verdict}", lever=name, verdict=trial.verdict)


def _document(measured: Sequence[Verification], ranked: PlannedDiagnosis | None) -> dict[str, object]:
    from tracelens.verify import store

    entries = [store.document(trial) for trial in measured]
    document: dict[str, object] = {"schema_version": store.SCHEMA_VERSION, "entries": entries}
    if ranked is not None:
        chosen = ranked.recommendation
        document["recommendation"] = {"scheme": chosen.scheme, "verdict": chosen.verdict}
    return document


def _silence(_: str) -> None:
    """Progress with -q: nothing is printed."""


def _nothing(verdict: str, shown: Presentation, after: str) -> None:
    """Answer that there is no change to measure, in every format."""
    said = say("{verdict}\nNothing to verify.", verdict=verdict)
    document = {"schema_version": 1, "entries": []}
    answer = CommandOutcome(
        lambda: said if shown.quiet else say("{said}\n\nnext: {after}", said=said, after=after), document
    )
    output.result(render(shown.renderer.outcome, answer, shown))
    if shown.form != "text":
        output.note(said)


def _names(diagnosis: PlannedDiagnosis, scheme: str | None, every: bool) -> tuple[str, ...]:
    if every:
        return tuple(name for name, patch in diagnosis.patches.items() if not patch.empty)
    name = chosen_scheme(diagnosis, scheme)
    return () if name is None else (name,)
