"""What `try` and `fix` work on: a run, or a script that is recorded first, and the levers that were named.

In: words of the command line. Out: the Run folder and names of levers. The first word is a run or a script if that path
exists, else a lever; what follows `--` is the script's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import interrupts, options, output
from tracelens.cli.misplaced import misplaced
from tracelens.cli.options import Presentation
from tracelens.errors import InputError, UsageError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.capture.supervisor.recording import Outcome, ProfileOptions


class ScriptArgumentsCommand(click.Command):
    """A command whose words after `--` belong to the script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        typed = tuple(args)  # click takes words out of its list
        try:
            rest = super().parse_args(ctx, args[:cut])
        except click.NoSuchOption as error:
            _explain_option_of_script(self, typed, error)
            raise
        ctx.params["script_words"] = typed[cut + 1 :]
        return rest


def _explain_option_of_script(command: click.Command, typed: Sequence[str], error: click.NoSuchOption) -> None:
    """An option that we do not have, after a script, is the script's: said with the line to type instead."""
    from tracelens.report import next_commands

    place = next((n for n, word in enumerate(typed) if word.endswith(".py")), None)
    if place is None or command.name is None:
        return
    meant = misplaced(command, typed[:place], typed[place:])
    words = [word for word in (meant.moved if meant is not None else typed) if word != "--"]
    named = (n for n, word in enumerate(words) if word.partition("=")[0] == error.option_name)
    first = next((n for n in named if n > words.index(typed[place])), None)
    if first is not None:
        whole = next_commands.line(command.name, *words[:first], "--", *words[first:])
        raise UsageError(
            say(
                "`{option}` is no option of `tracelens {command}`.{guess}",
                option=error.option_name,
                command=command.name,
                guess=options.did_you_mean(error.option_name, error.possibilities or ()),
            ),
            hint=say("if it is {script}'s, it belongs behind --: {line}", script=typed[place], line=whole),
        )


@dataclass(frozen=True, slots=True)
class Words:
    """What was typed: what to measure, and which levers."""

    subject: Path | None
    levers: tuple[str, ...]


def words_of(words: Sequence[str]) -> Words:
    """The first word is a run or a script if that path exists, else a lever."""
    if words and (Path(words[0]).exists() or words[0].endswith(".py")):
        path = Path(words[0])
        if not path.exists():
            near = options.did_you_mean(path.name, [one.name for one in path.parent.glob("*.py")])
            raise InputError(
                say("no such script: {path}.{near}", path=path, near=near),
                hint=say("give the path of a training script, or a run"),
            )
        return Words(path, tuple(words[1:]))
    return Words(None, tuple(words))


def check_names(asked: Words, levers: Sequence[Any]) -> None:
    """An unknown lever is told before anything is recorded."""
    from tracelens.lever_trials import ALL
    from tracelens.levers.chosen import chosen

    for word in asked.levers:
        if word != ALL:
            chosen(word, levers, options.SCHEMES)
    if ALL in asked.levers and len(asked.levers) > 1:
        raise UsageError(say("`all` and names of levers exclude each other"), hint=say("leave one of them out"))


def run_to_work_on(
    subject: Path | None, script_words: tuple[str, ...], shown: Presentation, budget_s: float = math.inf
) -> Path:
    """The run that was named, or the newest, or a new one of the script, recorded so that most of `budget_s` is left.

    Raises `KeyboardInterrupt` where Ctrl-C ended the recording.
    """
    from tracelens import run as runs

    if subject is None or runs.is_run(subject):
        if script_words:
            raise UsageError(
                say("a run has the arguments that it was recorded with"),
                hint=say("give a script to record it with others"),
            )
        return options.run_folder(subject)
    return _recorded(subject, script_words, shown, budget_s)


def _recorded(script: Path, words: tuple[str, ...], shown: Presentation, budget_s: float) -> Path:
    """A new run of the script, which ends when its window has closed; what it prints goes to stderr."""
    from tracelens.capture.supervisor import recording
    from tracelens.capture.window_plan import FEWEST_STEPS, FULL_BUDGET_SECONDS, WindowPlan

    if not shown.quiet:
        short = budget_s < FULL_BUDGET_SECONDS
        first = (
            say("tracelens: recording {script} first, in shorter windows, as the budget is short", script=script)
            if short
            else say("tracelens: recording {script} first", script=script)
        )
        output.note(first)
    plan = WindowPlan().for_budget(budget_s)
    wanted = recording.ProfileOptions(kind="script", words=(str(script), *words), plan=plan, stop_after_window=True)
    outcome = _profiled(wanted)
    if (steps := outcome.steps_too_few) is not None and steps >= FEWEST_STEPS:
        if not shown.quiet:
            output.note(_again(script, steps))
        outcome = _profiled(replace(wanted, plan=replace(plan, known_steps=steps)))
    if not outcome.complete:
        why = outcome.reason or say("it ended with {status}", status=outcome.status)
        raise InputError(
            say("{script} could not be recorded: {why}", script=script, why=why),
            hint="" if outcome.steps_too_few is not None else say("does it run by hand, and train?"),
        )
    return outcome.folder


def _again(script: Path, steps: int) -> str:
    told = {"script": script, "steps": steps}
    return say("tracelens: {script} was over after {steps} steps: recording it again in shorter windows", **told)


def _profiled(wanted: ProfileOptions) -> Outcome:
    """One recording, with what the script prints on stderr; raises `KeyboardInterrupt` after Ctrl-C."""
    from tracelens.capture.supervisor import recording

    with interrupts.kept(), output.stdout_on_stderr():
        outcome = recording.profile(wanted)
    if outcome.interrupted:
        raise KeyboardInterrupt
    return outcome
