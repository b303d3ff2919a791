"""`tracelens analyze`: what the GPU waited for."""

from __future__ import annotations

from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, typed
from tracelens.cli.renderers.renderer import AnalysisAnswer, render
from tracelens.messages import say


@click.command(short_help="What the GPU waited for, per source line.")
@options.inputs
@options.script
@click.option("--hta", is_flag=True, help="Also what HolisticTraceAnalysis measures, beside ours.")
@options.presented("analyze")
def analyze(paths: tuple[Path, ...], script: Path | None, hta: bool, shown: Presentation) -> None:
    """What the GPU waited for, per source line.

    RUN defaults to the newest complete run under tracelens-runs/. A TRACE is any Chrome trace of torch.profiler.
    """
    from tracelens import pipeline

    inputs = options.opened(paths)
    with output.progress(say("looking for what the GPU waited for")):
        diagnosis = pipeline.diagnose(inputs, pipeline.Options(script=script))
    for warning in diagnosis.timeline.trace.warnings:
        output.note(say("note: {warning}", warning=warning))
    given = typed(paths, PlanOptions(script=script), diagnosis)
    opinion = None
    if hta:
        with output.progress(say("asking HTA")):
            opinion = pipeline.second_opinion(diagnosis)
    output.result(render(shown.renderer.analysis, AnalysisAnswer(diagnosis, given, opinion), shown))
