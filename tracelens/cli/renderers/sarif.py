"""SARIF 2.1.0 for code scanning, with the texts of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracelens.cli.renderers.json import dumped
from tracelens.cli.renderers.renderer import AnalysisAnswer, ComparisonAnswer, GateAnswer, PlanAnswer, Renderer

if TYPE_CHECKING:
    from tracelens.cli.options import Presentation
    from tracelens.model import Diagnosis
    from tracelens.report.issues import Issue
    from tracelens.report.sarif import RuleText


def _diagnosis(answer: AnalysisAnswer | PlanAnswer, _: Presentation) -> str:
    from tracelens.report import issues

    return _log(answer.diagnosis, issues.list_issues(answer.diagnosis), compared=False)


def _comparison(answer: ComparisonAnswer, _: Presentation) -> str:
    return _log(answer.new, answer.comparison.issues, compared=True)


def _gate(answer: GateAnswer, _: Presentation) -> str:
    return _log(answer.diagnosis, answer.gate.issues, compared=answer.gate.compared)


def _log(diagnosis: Diagnosis, issues: Sequence[Issue], *, compared: bool) -> str:
    from tracelens.report import sarif

    return dumped(sarif.document(diagnosis, issues, _rule_texts(), compared=compared))


def _rule_texts() -> tuple[RuleText, ...]:
    """What the findings mean, from the rule files."""
    from tracelens.report.sarif import RuleText
    from tracelens.schemes import rules as rule_files

    texts = rule_files.load().findings.values()
    return tuple(RuleText(text.id, text.title, text.meaning, text.helps) for text in texts)


RENDERER = Renderer(
    name="sarif",
    about="a SARIF 2.1.0 log for code scanning",
    suffix=".sarif",
    analysis=_diagnosis,
    plan=_diagnosis,
    page=_diagnosis,
    comparison=_comparison,
    gate=_gate,
)
