"""`tracelens report`: one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.planning import Wishes, planned, reporting, typed


@click.command(short_help="One self-contained HTML file.")
@options.inputs
@reporting
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page.  [default: RUN/report.html, or beside you for a bare trace]",
)
@options.quiet
def report(paths: tuple[Path, ...], wishes: Wishes, out: Path | None, quiet: bool) -> None:
    """One HTML file with everything: verdict, schemes, timeline, waits, patch. It needs no network."""
    from tracelens import run as runs
    from tracelens.report import commands, html, words

    diagnosis = planned(paths, wishes)
    if out is None:
        bare = Path(f"{Path(diagnosis.traces[0].path).name.split('.')[0] or 'trace'}.report.html")
        out = diagnosis.run.path / runs.REPORT_FILE if diagnosis.run else bare
    runs.write_output(options.unread(out, diagnosis), html.render(diagnosis, wishes.source).encode())
    output.path(out)
    if not quiet:
        output.note(f"\n{words.headline(diagnosis)}\n\nnext: {commands.after_report(diagnosis, typed(paths, wishes))}")
