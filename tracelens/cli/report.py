"""`tracelens report`: one self-contained page, or the same as Markdown with the implementation record of a scheme."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, planned, reporting, typed
from tracelens.cli.renderers.renderer import PlanAnswer, Renderer, render
from tracelens.errors import UsageError
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.model import Diagnosis, IllustratedDiagnosis, SecondOpinion

STDOUT = Path("-")
CARD_SUFFIXES = (".svg", ".png")


@click.command(short_help="One self-contained HTML file, or a Markdown record.")
@options.inputs
@reporting
@options.scheme
@click.option(
    "-o",
    "out",
    type=options.OutputPath(),
    help="Where to write, - for stdout.  [default: RUN/report.html, or beside you for a bare trace]",
)
@click.option(
    "--card",
    "card_file",
    metavar="FILE.svg|png",
    type=options.OutputPath(),
    help="Write the first screen as one picture instead, for a pull request; a PNG needs Chromium.",
)
@click.option("--hta", is_flag=True, help="Also what HolisticTraceAnalysis measures, beside ours.")
@options.presented("report")
def report(
    paths: tuple[Path, ...],
    plan_options: PlanOptions,
    out: Path | None,
    card_file: Path | None,
    hta: bool,
    shown: Presentation,
) -> None:
    """One HTML file with everything: verdict, levers, the loop line by line, timeline. It needs no network.

    --format markdown writes the summary and the implementation record of the recommended change (or of --lever):
    problem, cause, steps, a checklist ticked by what `verify` measured, expected beside measured.
    """
    from tracelens import run as runs
    from tracelens.report import next_commands, redact, wording

    if plan_options.scheme is not None and shown.form != "markdown":
        raise UsageError(
            say("--lever chooses the record of --format markdown; {form} is about all levers", form=shown.form),
            hint=say("add --format markdown, or leave --lever out"),
        )
    if card_file is not None and card_file.suffix not in CARD_SUFFIXES:
        raise UsageError(
            say("--card {card_file}: a card is an .svg or a .png", card_file=card_file),
            hint="tracelens report --card card.svg",
        )
    diagnosis = planned(paths, plan_options, count_unsafe=True)
    if card_file is not None:
        _write_card(card_file, redact.redacted(diagnosis) if plan_options.redact else diagnosis)
        return
    given = typed(paths, plan_options, diagnosis)
    opinion = _second_opinion(diagnosis) if hta else None
    if plan_options.redact:  # what the user typed holds names as well
        answer = PlanAnswer(redact.redacted(diagnosis), (), plan_options, opinion)
    else:
        answer = PlanAnswer(diagnosis, given, plan_options, opinion)
    text = render(shown.renderer.page, answer, shown)
    where = out or _default(diagnosis, shown.renderer)
    if where == STDOUT:
        output.result(text)
        return
    runs.write_output(options.unread(where, diagnosis), text.encode("utf-8", "backslashreplace"))
    output.result(output.printable(where))
    if not shown.quiet:
        after = next_commands.next_command(diagnosis, given)
        output.note(say("\n{verdict}\n\nnext: {after}", verdict=wording.verdict(diagnosis), after=after))


def _second_opinion(diagnosis: IllustratedDiagnosis) -> SecondOpinion:
    from tracelens import pipeline

    with output.progress("asking HTA"):
        return pipeline.second_opinion(diagnosis)


def _write_card(where: Path, diagnosis: IllustratedDiagnosis) -> None:
    from tracelens import run as runs
    from tracelens.cli import card_picture
    from tracelens.report import card

    picture = card.render(diagnosis)
    data = card_picture.png(picture) if where.suffix == ".png" else picture.encode("utf-8", "backslashreplace")
    runs.write_output(options.unread(where, diagnosis), data)
    output.result(output.printable(where))


def _default(diagnosis: Diagnosis, renderer: Renderer) -> Path:
    """Where a format goes that is a file by nature; the others are printed."""
    suffix = renderer.suffix
    if suffix is None:
        return STDOUT
    if diagnosis.run is not None:
        return diagnosis.run.path / say("report{suffix}", suffix=suffix)
    return Path(
        say("{split}.report{suffix}", split=Path(diagnosis.traces[0].path).name.split(".")[0] or "trace", suffix=suffix)
    )
