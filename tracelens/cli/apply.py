"""`tracelens apply`: show the diff, then write it, with a backup."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output
from tracelens.cli.planning import Wishes, chosen_scheme, patching, pipeline_options, planned, typed
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from tracelens.model import Patch
    from tracelens.patch.apply import Standing


@click.command(short_help="Write the recommended patch; --dry-run only shows it.")
@options.one_run
@patching
@options.only
@options.skip
@click.option("--dry-run", is_flag=True, help="Show the diff, write nothing.")
def apply(run: Path | None, wishes: Wishes, only: tuple[str, ...], skip: tuple[str, ...], dry_run: bool) -> None:
    """Print the diff of the recommended scheme and write it; a backup makes `revert` exact."""
    from tracelens import pipeline
    from tracelens import run as runs
    from tracelens.patch import apply as patcher
    from tracelens.report import commands, text, words

    folder = options.run_folder(run)
    diagnosis = planned((folder,), wishes)
    if diagnosis.run is None and not dry_run:
        raise UsageError(
            "`tracelens apply` needs a run, not a bare trace: a run keeps the backup", hint="look at it with --dry-run"
        )
    name = chosen_scheme(diagnosis, wishes.scheme)
    if name is None:
        output.result(f"{words.headline(diagnosis)}\nNothing to apply.")
        return
    change = pipeline.partial_patch(diagnosis, name, pipeline.Hunks(only, skip), pipeline_options(wishes))
    again = typed((folder,), wishes)
    verify = commands.line("verify", *again, "--scheme", name)
    if _stands(change, patcher.standing(folder / runs.BACKUP_FOLDER)):
        output.result(f"This patch ({name}) is applied already: nothing to do.\n\nnext: {verify}")
        return
    after = commands.line("apply", *again, *_choice(wishes, only, skip)) if dry_run else verify
    output.result(text.patch(change, output.look(), after))
    if change.empty or dry_run:
        return
    patcher.write(change, folder / runs.BACKUP_FOLDER, name)
    pipeline.save(diagnosis)
    output.note(f"written: {', '.join(output.shown(file.path) for file in change.files)}")


def _stands(change: Patch, standing: Standing | None) -> bool:
    """Whether the files hold exactly this patch at present."""
    if standing is None or change.empty:
        return False
    return {file.path: file.after for file in standing.files} == {file.path: file.after for file in change.files}


def _choice(wishes: Wishes, only: tuple[str, ...], skip: tuple[str, ...]) -> tuple[str, ...]:
    """The options that chose what was shown, for the command that writes it."""
    words = ["--scheme", wishes.scheme] if wishes.scheme else []
    words += [word for flag, hunks in (("--only", only), ("--skip", skip)) for hunk in hunks for word in (flag, hunk)]
    return (*words, "--unsafe") if wishes.unsafe else tuple(words)
