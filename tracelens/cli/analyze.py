"""`tracelens analyze`: what the GPU waited for."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output, present
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, typed


@click.command(short_help="What the GPU waited for, per source line.")
@options.inputs
@options.script
@options.presented(*options.FORMATS)
def analyze(paths: tuple[Path, ...], script: Path | None, shown: Presentation) -> None:
    """What the GPU waited for, per source line.

    RUN defaults to the newest complete run under tracelens-runs/. A TRACE is any Chrome trace of torch.profiler.
    """
    from tracelens import pipeline

    inputs = options.opened(paths)
    with output.progress("looking for what the GPU waited for"):
        diagnosis = pipeline.diagnose(inputs, pipeline.Options(script=script))
    for warning in diagnosis.timeline.trace.warnings:
        output.note(f"note: {warning}")
    given = typed(paths, PlanOptions(script=script), diagnosis)
    from tracelens.report import text

    present.diagnosis(diagnosis, shown, given, lambda: text.analysis(diagnosis, shown.look(), given))
