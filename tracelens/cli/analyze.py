"""`tracelens analyze`: what the GPU waited for."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.planning import Wishes, typed


@click.command(short_help="What the GPU waited for, per source line.")
@options.inputs
@options.script
@options.text_or_json
@options.quiet
def analyze(paths: tuple[Path, ...], script: Path | None, form: str, quiet: bool) -> None:
    """What the GPU waited for, per source line.

    RUN defaults to the newest complete run under tracelens-runs/. A TRACE is any Chrome trace of torch.profiler.
    """
    from tracelens import pipeline

    inputs = options.opened(paths)
    with output.progress("looking for what the GPU waited for"):
        diagnosis = pipeline.diagnose(inputs, pipeline.Options(script=script))
    for warning in diagnosis.timeline.trace.warnings:
        output.note(f"note: {warning}")
    if form == "json":
        from tracelens.report import json

        output.document(json.document(diagnosis))
        return
    from tracelens.report import text, words

    output.result(
        words.headline(diagnosis)
        if quiet
        else text.analysis(diagnosis, output.look(), typed(paths, Wishes(script=script)))
    )
