"""`tracelens recommend`: schemes scored and ranked, with the staged plan."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.planning import Wishes, planned, planning


@click.command()
@options.inputs
@planning
@click.option("--time", metavar="2d", help="Working time there is for the change, in days or hours (2d, 4h).")
@click.option("--gain", type=float, metavar="PERCENT", help="Speedup wanted.")
@click.option(
    "--change",
    type=click.Choice(("minimal", "acceptable", "complex")),
    help="How much change of the code is acceptable.",
)
@options.text_or_json
@options.quiet
def recommend(
    paths: tuple[Path, ...],
    wishes: Wishes,
    time: str | None,
    gain: float | None,
    change: str | None,
    form: str,
    quiet: bool,
) -> None:
    """Schemes scored and ranked on this run, with reasons, ranges and the staged plan."""
    from tracelens import pipeline
    from tracelens.report import json, text, words

    diagnosis = planned(paths, wishes.limited(time, gain, change))
    written = pipeline.save(diagnosis)
    if form == "json":
        output.document(json.document(diagnosis))
        return
    output.result(words.headline(diagnosis) if quiet else text.recommendation(diagnosis, output.look()))
    if written and not quiet:
        output.note(f"written: {', '.join(str(path) for path in written)}")
