"""GitHub workflow commands: annotations beside the lines of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens.cli.renderers.renderer import AnalysisAnswer, ComparisonAnswer, GateAnswer, PlanAnswer, Renderer

if TYPE_CHECKING:
    from tracelens.cli.options import Presentation


def _diagnosis(answer: AnalysisAnswer | PlanAnswer, _: Presentation) -> str:
    from tracelens.report import github, issues, wording

    return github.render(wording.verdict(answer.diagnosis), issues.list_issues(answer.diagnosis))


def _comparison(answer: ComparisonAnswer, _: Presentation) -> str:
    from tracelens.report import github

    return github.render(answer.comparison.verdict, answer.comparison.issues, failed=answer.failed)


def _gate(answer: GateAnswer, _: Presentation) -> str:
    from tracelens.report import github

    return github.render(answer.gate.verdict, answer.gate.issues, failed=answer.gate.passed is False)


RENDERER = Renderer(
    name="github",
    about="annotations of a workflow, the ten costliest, as many as GitHub shows",
    analysis=_diagnosis,
    plan=_diagnosis,
    page=_diagnosis,
    comparison=_comparison,
    gate=_gate,
)
