"""`tracelens annotate`: findings as tracks in the trace, to open in Perfetto."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import click

from tracelens.cli import options, output
from tracelens.errors import InputError

GZIP_LEVEL = 6
"""The usual trade; traces are text and shrink by ten anyway."""


@click.command(short_help="Findings as tracks, to open in Perfetto.")
@click.argument("path", metavar="TRACE", type=options.INPUT)
@click.option(
    "-o", "out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The trace to write (.json.gz)."
)
def annotate(path: Path, out: Path) -> None:
    """Write TRACE again with the waits, idle causes and steps as tracks, for ui.perfetto.dev."""
    from tracelens import pipeline
    from tracelens import run as runs
    from tracelens.report import perfetto

    inputs = options.opened((path,))
    diagnosis = pipeline.diagnose(inputs)
    source = Path(diagnosis.timeline.trace.path)
    options.unread(out, diagnosis)
    with output.progress("writing the annotated trace"):
        text = json.dumps(perfetto.annotated(_document(source), diagnosis), separators=(",", ":"))
        data = text.encode()
        # a fixed time in the header: the same trace gives the same bytes
        runs.write_output(out, gzip.compress(data, GZIP_LEVEL, mtime=0) if out.suffix == ".gz" else data)
    output.path(out)
    output.note("\nnext: open it at https://ui.perfetto.dev, track TraceLens")


def _document(path: Path) -> Any:
    """The trace's JSON as it is; a damaged one can be analyzed, but not written again."""
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (OSError, EOFError, ValueError) as error:
        raise InputError(
            f"{path} cannot be written again: {error}", hint="a damaged trace can be analyzed, not annotated"
        ) from error
