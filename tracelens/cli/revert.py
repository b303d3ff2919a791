"""`tracelens revert`: the bytes from before `apply`, or from before `patch`."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import InputError
from tracelens.messages import joined, say


@click.command(short_help="Undo apply, byte for byte.")
@options.one_run
@options.presented("revert")
def revert(run: Path | None, shown: Presentation) -> None:
    """Undo `apply` or `patch`, byte for byte; refused where a file was edited since."""
    from tracelens import run as runs
    from tracelens.patch.files import apply as patcher
    from tracelens.report import next_commands

    folder = _folder(run)
    projects, next_command = _projects(folder)
    try:
        restored = patcher.revert(folder / runs.BACKUP_FOLDER, projects)
    except InputError as error:
        if run is None and (other := _applied_from(folder)) is not None:
            undo = next_commands.line("revert", next_commands.folder(output.shown(other)))
            raise InputError(
                error.message, hint=say("the patch in your files is of an older run: {undo}", undo=undo)
            ) from error
        raise
    if runs.is_patch_folder(folder):
        runs.remove_patch_folder(folder)
    files = [output.shown(path) for path in restored]
    said = [
        say("restored: {path}", path=output.shown(path))
        if path.exists()
        else say("removed: {path}", path=output.shown(path))
        for path in restored
    ]
    document = {"schema_version": 1, "restored": files, "next": next_command}
    answer = CommandOutcome(lambda: joined("\n", said), document)
    output.result(render(shown.renderer.outcome, answer, shown))
    if shown.for_people:
        output.note(say("\nnext: {next_command}", next_command=next_command))


def _folder(run: Path | None) -> Path:
    """What the user named; else the newest Run, and where there is none the newest patch that is in the files."""
    from tracelens import run as runs

    try:
        return options.run_folder(run)
    except InputError:
        parent = Path(runs.RUNS_FOLDER)
        applied = _applied_from(parent / "none") if run is None and parent.is_dir() else None
        if applied is None:
            raise
        return applied


def _projects(folder: Path) -> tuple[tuple[Path, ...], str]:
    """The folders whose files may be put back, and the next command."""
    from tracelens import run as runs
    from tracelens.report import next_commands

    if runs.is_patch_folder(folder):
        patched = runs.read_patch_folder(folder)
        return (patched.project,), next_commands.line("profile", *map(output.shown, patched.scripts[:1]))
    recorded = runs.read(folder)
    projects = (recorded.cwd, *([recorded.script.parent] if recorded.script else []))
    return projects, next_commands.line("recommend", next_commands.folder(folder))


def _applied_from(newest: Path) -> Path | None:
    """Another Run or patch beside it that is in the files at present."""
    from tracelens import run as runs

    older = (entry for entry in sorted(newest.parent.iterdir(), reverse=True) if entry != newest)
    return next((entry for entry in older if runs.applied_patch(entry / runs.BACKUP_FOLDER) is not None), None)
