"""`tracelens revert`: the bytes from before `apply`."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import InputError


@click.command(short_help="Undo apply, byte for byte.")
@options.one_run
@options.presented("revert")
def revert(run: Path | None, shown: Presentation) -> None:
    """Undo `apply`, byte for byte; refused where a file was edited since."""
    from tracelens import run as runs
    from tracelens.patch.files import apply as patcher
    from tracelens.report import next_commands

    folder = options.run_folder(run)
    recorded = runs.read(folder)
    projects = (recorded.cwd, *([recorded.script.parent] if recorded.script else []))
    try:
        restored = patcher.revert(folder / runs.BACKUP_FOLDER, projects)
    except InputError as error:
        if run is None and (other := _applied_from(folder)) is not None:
            undo = next_commands.line("revert", output.shown(other))
            raise InputError(error.message, hint=f"the patch in your files is of an older run: {undo}") from error
        raise
    next_command = next_commands.line("recommend", str(folder))
    files = [output.shown(path) for path in restored]
    document = {"schema_version": 1, "restored": files, "next": next_command}
    answer = CommandOutcome(lambda: "\n".join(f"restored: {file}" for file in files), document)
    output.result(render(shown.renderer.outcome, answer, shown))
    if shown.for_people:
        output.note(f"\nnext: {next_command}")


def _applied_from(newest: Path) -> Path | None:
    """Another run of the same folder whose patch is in the files at present."""
    from tracelens import run as runs

    older = (entry for entry in sorted(newest.parent.iterdir(), reverse=True) if entry != newest)
    return next((entry for entry in older if runs.applied_patch(entry / runs.BACKUP_FOLDER) is not None), None)
