"""`tracelens compare`: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output

if TYPE_CHECKING:
    from tracelens.report.compare import Comparison

GATE = {"not slower": 0, "slower": 1, "inconclusive": 3}


@click.command(short_help="What changed between two runs.")
@click.argument("base", type=options.INPUT)
@click.argument("new", type=options.INPUT)
@click.option("--gate", is_flag=True, help="Exit with 1 when NEW is slower, 3 when that cannot be told.")
@options.text_or_json
def compare(base: Path, new: Path, gate: bool, form: str) -> int:
    """What changed from BASE to NEW: step time with its interval, parts of the step, waits per line."""
    from tracelens import pipeline
    from tracelens.report import commands, text
    from tracelens.report import compare as comparing

    before, after = (pipeline.diagnose(options.opened((path,))) for path in (base, new))
    found = comparing.of(before, after)
    if form == "json":
        output.document(_document(found))
    else:
        output.result(text.comparison(found, output.look()))
        output.result(f"\nnext: {commands.line('recommend', str(new))}")
    return GATE[found.judgment] if gate else 0


def _document(found: Comparison) -> dict[str, object]:
    ratio = found.ratio
    return {
        "schema_version": 1,
        "judgment": found.judgment,
        "obstacles": list(found.obstacles),
        "base_us": found.base_ns / 1000,
        "new_us": found.new_ns / 1000,
        "basis": "unprofiled" if found.unprofiled else "profiled",
        "ratio": {"value": ratio.value, "low": ratio.low, "high": ratio.high} if ratio else None,
        "parts": {change.name: change.delta_ns / 1000 for change in found.parts},
        "waits": [
            {
                "place": change.name,
                "base_us": None if change.base_ns is None else change.base_ns / 1000,
                "new_us": None if change.new_ns is None else change.new_ns / 1000,
            }
            for change in found.waits
        ],
    }
