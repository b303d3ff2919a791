"""Markdown for a step summary, a pull request or a wiki; `report` adds the implementation record of a scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens.cli.renderers.renderer import (
    AnalysisAnswer,
    ComparisonAnswer,
    GateAnswer,
    PlanAnswer,
    Renderer,
    RulesAnswer,
)
from tracelens.messages import say

if TYPE_CHECKING:
    from tracelens.cli.options import Presentation
    from tracelens.cli.planning import PlanOptions
    from tracelens.edit_kinds import EditKind
    from tracelens.model import PlannedDiagnosis
    from tracelens.report.implementation_record import Subject


def _diagnosis(answer: AnalysisAnswer | PlanAnswer, _: Presentation) -> str:
    from tracelens.report import markdown

    return markdown.summary(answer.diagnosis, answer.typed)


def _page(answer: PlanAnswer, _: Presentation) -> str:
    from tracelens.report import implementation_record

    return implementation_record.page(answer.diagnosis, _subject(answer.diagnosis, answer.options), answer.typed)


def _comparison(answer: ComparisonAnswer, _: Presentation) -> str:
    from tracelens.report import markdown

    return markdown.comparison(answer.comparison, answer.next_command)


def _gate(answer: GateAnswer, _: Presentation) -> str:
    from tracelens.report import markdown

    return markdown.gate(answer.gate, answer.next_command)


def _rules(answer: RulesAnswer, _: Presentation) -> str:
    from tracelens.cli import rules_markdown

    return rules_markdown.page(answer.rules) if answer.name is None else rules_markdown.entry(answer.named)


def _subject(diagnosis: PlannedDiagnosis, options: PlanOptions) -> Subject | None:
    """The scheme to write the record of, with what the rule files expect of it; None where nothing is recommended."""
    from tracelens.cli.planning import chosen_scheme
    from tracelens.report.implementation_record import Expectation, Subject
    from tracelens.schemes import rules as rule_files

    name = chosen_scheme(diagnosis, options.scheme)
    rule = rule_files.load(options.rules).scheme(name) if name else None
    if rule is None:
        return None
    spans = (
        (say("gain"), rule.gain, "%"),
        (say("working days"), rule.days, ""),
        (say("lines of code"), rule.lines, ""),
    )
    claims = (
        Expectation(
            what,
            say("{range} {unit}", range=_range(span.low, span.high), unit=unit)
            if unit
            else _range(span.low, span.high),
            f"{span.seed}, {span.section}",
        )
        for what, ranges, unit in spans
        for span in ranges
    )
    return Subject(
        scheme=rule.id,
        number=rule.number,
        summary=rule.summary,
        claims=tuple(claims),
        risks=tuple(claim.text for claim in rule.risks),
        streams=_streams([edit.kind for edit in rule.edits]),
        applied=None if diagnosis.run is None else diagnosis.applied == rule.id,
    )


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else say("{low:g} to {high:g}", low=low, high=high)


def _streams(kinds: list[EditKind]) -> tuple[tuple[str, str], ...]:
    """What runs where in a pipeline; nothing for schemes that stay on one stream."""
    from tracelens.edit_kinds import replay_rule

    rules = {replay_rule(kind) for kind in kinds}
    if "copy-ahead" not in rules:
        return ()
    reads = (
        [(say("reads"), say("values read back to the host, once their event has completed"))]
        if "read-later" in rules
        else []
    )
    loop = say("forward, backward and optimizer of batch N; it waits for the copy's event, the host does not")
    copies = say("batch N+1 and those after it, from pinned memory, while batch N computes")
    return ((say("the loop's own"), loop), (say("copies"), copies), *reads)


RENDERER = Renderer(
    name="markdown",
    about="for a step summary, a pull request or a wiki",
    suffix=".md",
    analysis=_diagnosis,
    plan=_diagnosis,
    page=_page,
    comparison=_comparison,
    gate=_gate,
    rules=_rules,
)
