"""`tracelens recommend`: schemes scored and ranked, with the staged plan."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.planning import Constraints, PlanOptions, planned, planning, typed
from tracelens.cli.renderers.renderer import PlanAnswer, render
from tracelens.errors import UsageError
from tracelens.messages import say

DAYS = {"h": 1 / 8, "d": 1.0, "w": 5.0}
"""Working time, as the seeds count it: eight hours a day, five days a week."""


def _days(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?)\s*([dhw])", value.strip())
    if match is None:
        raise click.BadParameter(say("{value!r} is not a time such as 2d, 4h or 1w", value=value), context, parameter)
    return float(match[1]) * DAYS[match[2]]


constraints = options.bundled(
    "constraints",
    Constraints,
    click.option("--time", metavar="2d", callback=_days, help="Working time there is: days, hours or weeks."),
    click.option("--gain", type=options.NonNegativeNumber(), metavar="PERCENT", help="How much faster it has to be."),
    click.option(
        "--change",
        type=options.ChoiceWithSuggestion(("minimal", "acceptable", "complex")),
        help="How much change of the code is acceptable.",
    ),
)


@click.command(short_help="What costs the step time, and what each lever would gain.")
@options.inputs
@constraints
@planning
@options.presented("recommend")
def recommend(
    paths: tuple[Path, ...], plan_options: PlanOptions, constraints: Constraints, shown: Presentation
) -> None:
    """What costs the step time, its lines, and the levers by what they gain on this run; -v has scores and the plan."""
    diagnosis = planned(paths, plan_options, constraints)
    from tracelens import pipeline

    try:
        written = pipeline.save(diagnosis)
    except UsageError as error:  # a run in a folder that is only to be read; the answer does not need the files
        output.note(say("note: {message}", message=error.message))
        written = ()
    given = typed(paths, plan_options, diagnosis)
    output.result(render(shown.renderer.plan, PlanAnswer(diagnosis, given, plan_options), shown))
    if written and shown.for_people:
        output.note(say("written: {paths}", paths=", ".join(str(path) for path in written)))
