"""Text for a terminal; with -q the verdict alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens.cli.renderers.renderer import (
    AnalysisAnswer,
    CommandOutcome,
    ComparisonAnswer,
    GateAnswer,
    PlanAnswer,
    Renderer,
    RulesAnswer,
)

if TYPE_CHECKING:
    from tracelens.cli.options import Presentation


def _analysis(answer: AnalysisAnswer, presentation: Presentation) -> str:
    from tracelens.report import text, wording

    if presentation.quiet:
        return wording.verdict(answer.diagnosis)
    return text.analysis(answer.diagnosis, presentation.style(), answer.typed, answer.second_opinion)


def _plan(answer: PlanAnswer, presentation: Presentation) -> str:
    from tracelens.report import wording

    return wording.verdict(answer.diagnosis) if presentation.quiet else _page(answer, presentation)


def _page(answer: PlanAnswer, presentation: Presentation) -> str:
    from tracelens.report import text

    return text.recommendation(answer.diagnosis, presentation.style(), answer.typed)


def _comparison(answer: ComparisonAnswer, presentation: Presentation) -> str:
    from tracelens.report import compare_text

    if presentation.quiet:
        return answer.comparison.verdict
    return compare_text.comparison(answer.comparison, presentation.style(), answer.next_command)


def _gate(answer: GateAnswer, presentation: Presentation) -> str:
    from tracelens.report import compare_text

    if presentation.quiet:
        return answer.gate.verdict
    return compare_text.gate(answer.gate, presentation.style(), answer.next_command)


def _rules(answer: RulesAnswer, presentation: Presentation) -> str:
    from tracelens.cli import rules_text

    if answer.name is not None:
        return rules_text.explained(answer.named, presentation.style())
    if presentation.quiet:
        return rules_text.ids(answer.rules)
    return rules_text.listed(answer.rules, presentation.style())


def _outcome(answer: CommandOutcome, _: Presentation) -> str:
    return answer.text()


RENDERER = Renderer(
    name="text",
    about="for people, in a terminal",
    analysis=_analysis,
    plan=_plan,
    page=_page,
    comparison=_comparison,
    gate=_gate,
    rules=_rules,
    outcome=_outcome,
)
