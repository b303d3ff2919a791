"""`tracelens revert`: the bytes from before `apply`."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.options import Shown


@click.command(short_help="Undo apply, byte for byte.")
@options.one_run
@options.presented("text", "json")
def revert(run: Path | None, shown: Shown) -> None:
    """Undo `apply`, byte for byte; refused where a file was edited since."""
    from tracelens import run as runs
    from tracelens.patch.files import apply as patcher
    from tracelens.report import commands

    folder = options.run_folder(run)
    recorded = runs.read(folder)
    projects = (recorded.cwd, *([recorded.script.parent] if recorded.script else []))
    restored = patcher.revert(folder / runs.BACKUP_FOLDER, projects)
    next_command = commands.line("recommend", str(folder))
    if shown.form == "json":
        files = [output.shown(path) for path in restored]
        output.document({"schema_version": 1, "restored": files, "next": next_command})
        return
    output.result("\n".join(f"restored: {output.shown(path)}" for path in restored))
    if not shown.quiet:
        output.note(f"\nnext: {next_command}")
