"""`tracelens profile`: run a training script under observation."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import output
from tracelens.errors import TracelensError

if TYPE_CHECKING:
    from tracelens.capture.session import Outcome
    from tracelens.launch.supervise import Kind


class AnyCommand(click.Command):
    """A command that knows whether its arguments came after `--`: then they are a program, not a Python script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("words") or ()
        before = len(given) - len(words) - 1
        ctx.params["program"] = before >= 0 and bool(words) and given[before] == "--"
        return rest


@click.command(
    cls=AnyCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a training script and record what its GPU waits for.",
)
@click.option("-o", "out", type=click.Path(path_type=Path, file_okay=False), help="The run folder to write.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps to record.  [default: 12]")
@click.option("--stop-after-window", is_flag=True, help="End the script when the recording is complete.")
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module, as in python -m.")
@click.option("-q", "--quiet", is_flag=True, help="No words of ours while the script runs, only errors.")
@click.argument("words", metavar="SCRIPT [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def profile(
    out: Path | None,
    steps: int | None,
    stop_after_window: bool,
    module: bool,
    quiet: bool,
    words: Sequence[str],
    program: bool = False,
) -> int:
    """Run SCRIPT unmodified, record a short window of its training steps, and say what the GPU waited for.

    Also for modules and launchers:

    \b
      tracelens profile -m package.train --epochs 1
      tracelens profile -- torchrun --nproc-per-node=4 train.py
    """
    from tracelens.capture import session
    from tracelens.launch import supervise

    kind: Kind = "module" if module else "command" if program else "script"
    wanted = session.ProfileOptions(kind=kind, words=tuple(words), out=out, stop_after_window=stop_after_window)
    if steps is not None:
        wanted = replace(wanted, plan=replace(wanted.plan, clean=steps))
    announcement = _Announcement(quiet)
    outcome = session.profile(wanted, announcement.start)
    announcement.wait()
    _conclude(outcome, announcement, quiet)
    return 0 if outcome.stopped else supervise.end_as(outcome.status)


class _Announcement:
    """Verdict and report of a closed window, made beside the training that goes on; its words go to stderr."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.command: str | None = None
        self._thread: threading.Thread | None = None

    def start(self, folder: Path) -> None:
        self._thread = threading.Thread(target=self._make, args=(folder,), name="tracelens-report")
        self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _make(self, folder: Path) -> None:
        from tracelens import pipeline
        from tracelens.report import commands, words

        try:
            diagnosis = pipeline.plan(pipeline.examine(pipeline.open_inputs((folder,))))
            written = pipeline.save(diagnosis)
        except TracelensError as error:  # the recording is there; its analysis can be repeated
            output.failure(error)
            return
        self.command = commands.line("recommend", output.shown(folder))
        if not self.quiet:
            page = next(path for path in written if path.suffix == ".html")
            output.note(f"tracelens: {words.headline(diagnosis)}\ntracelens: report: {output.shown(page)}")


def _conclude(outcome: Outcome, announcement: _Announcement, quiet: bool) -> None:
    if outcome.reason:
        output.note(f"tracelens: the recording is not complete: {outcome.reason}")
    if quiet:
        return
    for text in outcome.notes:
        output.note(f"tracelens: note: {text}")
    output.note(f"tracelens: recorded in {output.shown(outcome.folder)}")
    if announcement.command:
        output.note(f"\nnext: {announcement.command}")
