"""`tracelens report`: one self-contained page, or the same as Markdown with the implementation record of a scheme."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output, present
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, chosen_scheme, planned, reporting, typed
from tracelens.edit_kinds import EditKind, replay_rule
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from tracelens.model import Diagnosis, IllustratedDiagnosis, PlannedDiagnosis
    from tracelens.report.implementation_record import Subject

SUFFIX = {"html": ".html", "markdown": ".md", "sarif": ".sarif"}
"""Formats that are files by nature; the others are printed unless -o names a file."""
STDOUT = Path("-")


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
@options.presented("html", *options.FORMATS)
def report(paths: tuple[Path, ...], plan_options: PlanOptions, out: Path | None, shown: Presentation) -> None:
    """One HTML file with everything: verdict, schemes, timeline, waits, patch. It needs no network.

    --format markdown writes the summary and the implementation record of the recommended scheme (or of --scheme):
    problem, cause, steps, a checklist ticked by what `verify` measured, expected beside measured.
    """
    from tracelens import run as runs
    from tracelens.report import next_commands, wording

    if plan_options.scheme is not None and shown.form != "markdown":
        raise UsageError(
            f"--scheme chooses the record of --format markdown; {shown.form} is about all schemes",
            hint="add --format markdown, or leave --scheme out",
        )
    diagnosis = planned(paths, plan_options, count_unsafe=True)
    given = typed(paths, plan_options, diagnosis)
    text = (
        _redacted(diagnosis, plan_options, shown)
        if plan_options.redact
        else _text(diagnosis, plan_options, shown, given)
    )
    where = out or _default(diagnosis, shown.form)
    if where == STDOUT:
        output.result(text)
        return
    runs.write_output(options.unread(where, diagnosis), text.encode("utf-8", "backslashreplace"))
    output.path(where)
    if not shown.quiet:
        after = next_commands.after_report(diagnosis, given, _applied(diagnosis))
        output.note(f"\n{wording.headline(diagnosis)}\n\nnext: {after}")


def _redacted(diagnosis: IllustratedDiagnosis, plan_options: PlanOptions, shown: Presentation) -> str:
    """The same without names; what the user typed holds some as well."""
    from tracelens.report import redact

    return _text(redact.redacted(diagnosis), plan_options, shown, ())


def _default(diagnosis: Diagnosis, form: str) -> Path:
    suffix = SUFFIX.get(form)
    if suffix is None:
        return STDOUT
    if diagnosis.run is not None:
        return diagnosis.run.path / f"report{suffix}"
    return Path(f"{Path(diagnosis.traces[0].path).name.split('.')[0] or 'trace'}.report{suffix}")


def _text(
    diagnosis: IllustratedDiagnosis, plan_options: PlanOptions, shown: Presentation, given: tuple[str, ...]
) -> str:
    if shown.form == "html":
        from tracelens.report import html

        return html.render(diagnosis, plan_options.source)
    if shown.form == "markdown":
        from tracelens.report import implementation_record

        return implementation_record.page(diagnosis, _subject(diagnosis, plan_options), given)
    from tracelens.report import text

    return present.rendered(diagnosis, shown.form, given, lambda: text.recommendation(diagnosis, shown.look(), given))


def _subject(diagnosis: PlannedDiagnosis, plan_options: PlanOptions) -> Subject | None:
    """The scheme to write the record of, with what the rule files expect of it; None where nothing is recommended."""
    from tracelens.report.implementation_record import Expectation, Subject
    from tracelens.schemes import rules as rule_files

    name = chosen_scheme(diagnosis, plan_options.scheme)
    rule = rule_files.load(plan_options.rules).scheme(name) if name else None
    if rule is None:
        return None
    spans = (("gain", rule.gain, "%"), ("working days", rule.days, ""), ("lines of code", rule.lines, ""))
    claims = (
        Expectation(what, f"{_range(span.low, span.high)} {unit}".strip(), f"{span.seed}, {span.section}")
        for what, found, unit in spans
        for span in found
    )
    return Subject(
        scheme=rule.id,
        number=rule.number,
        summary=rule.summary,
        claims=tuple(claims),
        risks=tuple(claim.text for claim in rule.risks),
        streams=_streams([edit.kind for edit in rule.edits]),
        applied=None if diagnosis.run is None else _applied(diagnosis) == rule.id,
    )


def _applied(diagnosis: Diagnosis) -> str | None:
    """The scheme whose patch is in the files at present."""
    from tracelens import run as runs

    applied = runs.applied_patch(diagnosis.run.path / runs.BACKUP_FOLDER) if diagnosis.run else None
    return applied.scheme if applied is not None else None


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _streams(kinds: list[EditKind]) -> tuple[tuple[str, str], ...]:
    """What runs where in a pipeline; nothing for schemes that stay on one stream."""
    rules = {replay_rule(kind) for kind in kinds}
    if "copy-ahead" not in rules:
        return ()
    reads = [("reads", "values read back to the host, once their event has completed")] if "read-later" in rules else []
    loop = "forward, backward and optimizer of batch N; it waits for the copy's event, the host does not"
    copies = "batch N+1 and those after it, from pinned memory, while batch N computes"
    return (("the loop's own", loop), ("copies", copies), *reads)
