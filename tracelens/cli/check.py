"""`tracelens check`: is a run within its budgets? For CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from tracelens.report.budget import Item


@click.command(short_help="CI gate: budgets on synchronizations, idle, step time.")
@click.argument("path", metavar="RUN", type=options.INPUT)
@click.option("--max-syncs-per-step", "syncs", type=options.Amount(), help="Waits of the host for the GPU.")
@click.option("--max-exposed-ms", "exposed", type=options.Amount(), help="What all waits together cost a step.")
@click.option("--max-idle-share", "idle", type=options.Amount(1), help="Idle share of the GPU, 0 to 1.")
@click.option("--max-step-ms", "step", type=options.Amount(), help="Step time, unprofiled where recorded.")
@options.text_or_json
def check(
    path: Path, syncs: float | None, exposed: float | None, idle: float | None, step: float | None, form: str
) -> int:
    """Exit with 1 when RUN exceeds a budget, 3 when a budget cannot be judged."""
    from tracelens import pipeline
    from tracelens.report import budget, commands

    limits = budget.Limits(syncs, exposed, idle, step)
    if limits.empty:
        raise UsageError("no budget was given", hint="such as: tracelens check RUN --max-syncs-per-step 1")
    examined = pipeline.examine(options.opened((path,)))
    items = budget.check(examined.diagnosis, limits, pipeline.exposed_together(examined))
    if form == "json":
        output.document({"schema_version": 1, "budgets": [_document(item) for item in items]})
    else:
        output.result("\n".join(_line(item) for item in items))
        output.result(f"\nnext: {commands.line('recommend', str(path))}")
    verdicts = {item.within for item in items}
    return 1 if False in verdicts else 3 if None in verdicts else 0


def _line(item: Item) -> str:
    mark = {True: "ok    ", False: "ABOVE ", None: "?     "}[item.within]
    value = "not measured" if item.value is None else f"{item.value:.3g}{item.unit}"
    return f"{mark} {item.name}: {value}, at most {item.limit:g}{item.unit}"


def _document(item: Item) -> dict[str, object]:
    return {"name": item.name, "value": item.value, "limit": item.limit, "within": item.within}
