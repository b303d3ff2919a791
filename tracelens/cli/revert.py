"""`tracelens revert`: the bytes from before `apply`."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output


@click.command(short_help="Undo apply, byte for byte.")
@options.one_run
def revert(run: Path | None) -> None:
    """Undo `apply`, byte for byte; refused where a file was edited since."""
    from tracelens import run as runs
    from tracelens.patch import apply as patcher
    from tracelens.report import commands

    folder = options.run_folder(run)
    recorded = runs.read(folder)
    projects = (recorded.cwd, *([recorded.script.parent] if recorded.script else []))
    restored = patcher.revert(folder / runs.BACKUP_FOLDER, projects)
    output.result("\n".join(f"restored: {output.shown(path)}" for path in restored))
    output.note(f"\nnext: {commands.line('recommend', str(folder))}")
