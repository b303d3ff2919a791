"""`tracelens profile`: run a training script under observation."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import output
from tracelens.cli.misplaced import MisplacedOptions, misplaced
from tracelens.errors import TracelensError
from tracelens.messages import joined, say

if TYPE_CHECKING:
    from tracelens.capture.supervisor.recording import Outcome, ProfileOptions
    from tracelens.launch.supervisor import Kind


SHARED = say("The run folder of all nodes of a job, on storage that they share; each node runs tracelens profile.")
MOST_RANKS = 100_000
"""A span longer than any cluster is a slip of the finger."""


class ScriptOrProgramCommand(click.Command):
    """A command that knows what came before its arguments: after `--` they are a program, not a Python script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("words") or ()
        before = len(given) - len(words) - 1
        ctx.params["program"] = before >= 0 and bool(words) and given[before] == "--"
        ctx.params["before"] = tuple(given[: before + 1])
        return rest


def _ranks(_context: click.Context, _option: click.Parameter, given: str | None) -> tuple[int, ...] | None:
    """Numbers and spans of numbers, separated by commas."""
    if given is None:
        return None
    ranks: set[int] = set()
    for part in given.split(","):
        first, span, last = part.partition("-")
        last = last if span else first
        if not (first.isdecimal() and last.isdecimal()) or not 0 <= int(last) - int(first) < MOST_RANKS:
            raise click.BadParameter(say("{given!r} is no list of ranks such as 0,4-7", given=given))
        ranks.update(range(int(first), int(last) + 1))
    return tuple(sorted(ranks))


@click.command(
    cls=ScriptOrProgramCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a training script and record what its GPU waits for.",
)
@click.option("-o", "out", type=click.Path(path_type=Path, file_okay=False), help="The run folder to write.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps to record.  [default: 12]")
@click.option("--stop-after-window", is_flag=True, help="End the script when the recording is complete.")
@click.option("--ranks", callback=_ranks, help="Which ranks record, as in 0,4-7.  [default: all]")
@click.option("--run-dir", "shared", type=click.Path(path_type=Path, file_okay=False), help=SHARED)
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option("-q", "--quiet", is_flag=True, help="No words of ours while the script runs, only errors.")
@click.argument("words", metavar="SCRIPT [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def profile(
    *, quiet: bool, words: Sequence[str], program: bool = False, before: tuple[str, ...] = (), **chosen: Any
) -> int:
    """Run SCRIPT unmodified, record a short window of its training steps, and say what the GPU waited for.

    Also for modules and launchers:

    \b
      tracelens profile -m package.train --epochs 1
      tracelens profile -- torchrun --nproc-per-node=4 train.py
    """
    from tracelens.capture.supervisor import recording as session
    from tracelens.launch import supervisor
    from tracelens.report import next_commands

    wanted = _options(tuple(words), program=program, **chosen)
    meant = None if program else misplaced(click.get_current_context().command, before, words)
    hint = "" if meant is None else _as_option(meant, words[0])
    if hint and not quiet:
        output.note(hint)
    announcement = _Announcement(quiet)
    outcome = session.profile(wanted, announcement.start)
    announcement.wait()
    unknown = meant if outcome.status == USAGE_ERROR else None
    again = unknown.moved if unknown is not None else (*_elsewhere(before), *words)
    mended = "" if unknown is None else _unknown_to(words[0], unknown)
    _conclude(outcome, announcement, _Again(next_commands.line("profile", *again), mended), quiet)
    return 0 if outcome.stopped else supervisor.end_as(outcome.status)


def _options(
    words: tuple[str, ...], *, program: bool, module: bool, out: Path | None, shared: Path | None, **chosen: Any
) -> ProfileOptions:
    from tracelens.capture.supervisor.recording import ProfileOptions

    if not words[0]:
        raise click.UsageError(say("SCRIPT is empty: is a variable not set?"))
    if out is not None and shared is not None:
        raise click.UsageError(say("-o and --run-dir both name the run folder: give one of them"))
    kind: Kind = "module" if module else "command" if program else "script"
    steps = chosen.pop("steps")
    wanted = ProfileOptions(kind=kind, words=words, out=shared or out, join=shared is not None, **chosen)
    return wanted if steps is None else replace(wanted, plan=replace(wanted.plan, clean=steps))


def _as_option(meant: MisplacedOptions, script: str) -> str:
    from tracelens.report import next_commands

    first = next_commands.line("profile", *meant.moved)
    return say(
        "tracelens: {words} goes to {script}. For TraceLens, put it first:\n           {first}",
        words=joined(" ", meant.words),
        script=script,
        first=first,
    )


def _unknown_to(script: str, meant: MisplacedOptions) -> str:
    words = joined(" ", meant.words)
    return say("tracelens: {script} does not know {words}. For TraceLens, put it first:", script=script, words=words)


USAGE_ERROR = 2
"""Status of a script that does not know its arguments (argparse)."""
AFTER_NOTHING = "tracelens doctor"
"""Where nothing was recorded and the script neither failed nor ended early, the first question is whether this machine
can record."""


@dataclass(frozen=True, slots=True)
class _Again:
    """The command that records once more, and what is mended in it: options of ours that the script did not know."""

    command: str
    mended: str


@dataclass(frozen=True, slots=True)
class _Closing:
    """What is said when the script has ended."""

    recorded: str
    answer: str
    next_command: str
    page: str


class _Announcement:
    """Verdict and report of a closed window, made beside the training that goes on; its words go to stderr."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.closing: _Closing | None = None
        self._thread: threading.Thread | None = None

    def start(self, folder: Path) -> None:
        self._thread = threading.Thread(target=self._make, args=(folder,), name="tracelens-report")
        self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _make(self, folder: Path) -> None:
        from tracelens import pipeline
        from tracelens.report import next_commands, text, wording

        try:
            examined = pipeline.examine(pipeline.open_inputs((folder,)))
            diagnosis = pipeline.illustrate(examined, pipeline.plan(examined))
            written = pipeline.save(diagnosis)
        except TracelensError as error:  # the recording is there; its analysis can be repeated
            output.failure(error)
            return
        except OSError as error:  # a full disk is no bug of ours
            output.note(say("tracelens: the report could not be written: {error}", error=error))
            return
        page = output.shown(next(path for path in written if path.suffix == ".html"))
        steps, device = wording.step_count(diagnosis), wording.device(diagnosis.timeline.trace)
        recorded = say(
            "{steps} recorded in {folder} ({device})",
            steps=steps,
            folder=next_commands.folder(output.shown(folder)),
            device=device,
        )
        after = next_commands.next_command(diagnosis, (next_commands.folder(output.shown(folder)),))
        answer = text.after_profile(diagnosis, output.terminal_style(stream=sys.stderr))
        self.closing = _Closing(recorded, answer, after, page)
        if not self.quiet:
            output.note(say("tracelens: {steps} recorded; report: {page}", steps=steps, page=page))


def _conclude(outcome: Outcome, announcement: _Announcement, again: _Again, quiet: bool) -> None:
    failed = outcome.status != 0 and not outcome.stopped
    if outcome.reason:
        output.note(say("tracelens: the recording is not complete: {reason}", reason=outcome.reason))
    if quiet:
        return
    for text in outcome.notes:
        if text not in (outcome.reason or ""):
            output.note(say("tracelens: note: {text}", text=text))
    if announcement.closing is not None:
        _close(announcement.closing, outcome.status if failed else 0)
        return
    if outcome.ranks:
        output.note(say("tracelens: recorded in {folder}", folder=output.shown(outcome.folder)))
        output.note(say("\nnext: {recommend}", recommend=_recommend(outcome.folder)))
        return
    output.note(say("tracelens: run folder: {folder}", folder=output.shown(outcome.folder)))
    if again.mended:
        output.note(again.mended)
    elif failed and outcome.status > 0:  # the same command would end in the same error: it is not the next one
        output.note(
            say(
                "tracelens: the script failed (exit code {status}): its own error, above, is the next thing to mend. "
                "Then:\n           {again}",
                status=outcome.status,
                again=again.command,
            )
        )
        return
    mendable = outcome.status != 0 or _made_steps(outcome.folder)
    output.note(say("\nnext: {again}", again=again.command if mendable else AFTER_NOTHING))


def _close(closing: _Closing, failed: int) -> None:
    """What was found, the next command, the report."""
    output.note(say("tracelens: {recorded}", recorded=closing.recorded))
    if failed:
        output.note(
            say("tracelens: the script failed afterwards (exit code {failed}); its own error is above", failed=failed)
        )
    output.styled_note(closing.answer)
    output.note(say("\nnext: {next_command}\nreport: {page}", next_command=closing.next_command, page=closing.page))


def _recommend(folder: Path) -> str:
    from tracelens.report import next_commands

    return next_commands.line("recommend", next_commands.folder(output.shown(folder)))


def _elsewhere(before: Sequence[str]) -> list[str]:
    """The options of a recording that is to be made again: its folder is taken by the first attempt."""
    named = [place for place, word in enumerate(before) if word == "-o"]
    return [word for place, word in enumerate(before) if place not in named and place - 1 not in named]


def _made_steps(folder: Path) -> bool:
    """Whether training steps were seen, so that machine and script are well and only the recording came to nothing."""
    from tracelens import run as runs

    try:
        return bool(runs.read(folder).recordings)
    except TracelensError:
        return False
