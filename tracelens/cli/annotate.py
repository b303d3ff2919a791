"""`tracelens annotate`: findings as tracks in the trace, to open in Perfetto."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.messages import say

GZIP_LEVEL = 6
"""The usual trade; traces are text and shrink by ten anyway."""


def _steps(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    first, _, last = value.partition(":")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise click.BadParameter(say("{value!r} is not FIRST or FIRST:LAST", value=value), context, parameter) from None


@click.command(short_help="Findings as tracks, to open in Perfetto.")
@click.argument("path", metavar="TRACE", type=options.INPUT)
@click.option("-o", "out", required=True, type=options.OutputPath(), help="The trace to write (.json.gz).")
@click.option("--steps", metavar="FIRST[:LAST]", callback=_steps, help="Keep only these steps of the trace.")
@options.presented("annotate")
def annotate(path: Path, out: Path, steps: tuple[int, int] | None, shown: Presentation) -> None:
    """Write TRACE again with tracks for ui.perfetto.dev: findings, waits, idle causes, the predicted step."""
    from tracelens import pipeline
    from tracelens import run as runs
    from tracelens.report import perfetto

    inputs = options.opened((path,))
    with output.progress(say("predicting what each lever would give")):
        examined = pipeline.examine(inputs)
        diagnosis = pipeline.illustrate(examined, pipeline.plan(examined))
    source = Path(diagnosis.timeline.trace.path)
    options.unread(out, diagnosis)
    with output.progress(say("writing the annotated trace")):
        text = json.dumps(perfetto.annotated(_document(source), diagnosis, steps), separators=(",", ":"))
        data = text.encode()
        # a fixed time in the header: the same trace gives the same bytes
        runs.write_output(out, gzip.compress(data, GZIP_LEVEL, mtime=0) if out.suffix == ".gz" else data)
    document = {"schema_version": 1, "written": str(out), "bytes": out.stat().st_size}
    output.result(render(shown.renderer.outcome, CommandOutcome(lambda: output.printable(out), document), shown))
    if shown.for_people:
        output.note(say("\nnext: open it at https://ui.perfetto.dev, track TraceLens"))


def _document(path: Path) -> Any:
    """The trace's JSON as it is; of a damaged one, all that is intact."""
    from tracelens.trace import json_document

    trace = json_document.document(path)
    for warning in trace.warnings:
        output.note(say("note: {warning}", warning=warning))
    return trace.content
