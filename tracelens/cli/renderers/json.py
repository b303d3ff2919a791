"""JSON for programs: one document per command, each with its schema in docs/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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


def dumped(value: Mapping[str, Any]) -> str:
    """JSON in ASCII, which no terminal acts on and no encoding of a stream alters."""
    return json.dumps(value, indent=2, allow_nan=False)


def _diagnosis(answer: AnalysisAnswer | PlanAnswer, _: Presentation) -> str:
    from tracelens.report import json as json_report

    opinion = answer.second_opinion if isinstance(answer, AnalysisAnswer) else None
    asked = {} if opinion is None else {"hta": json_report.second_opinion_document(opinion)}
    return dumped(json_report.document(answer.diagnosis) | asked)


def _comparison(answer: ComparisonAnswer, _: Presentation) -> str:
    from tracelens.report import compare

    return dumped(compare.comparison_document(answer.comparison))


def _gate(answer: GateAnswer, _: Presentation) -> str:
    from tracelens.report import gate

    return dumped(gate.document(answer.gate))


def _rules(answer: RulesAnswer, _: Presentation) -> str:
    from dataclasses import asdict

    if answer.name is not None:
        return dumped(asdict(answer.named[0]))
    rules = answer.rules
    return dumped(
        {
            "schema_version": 1,
            "weights": dict(rules.weights),
            "schemes": [asdict(rule) for rule in rules.schemes],
            "findings": [asdict(text) for text in rules.findings.values()],
            "edits": [asdict(recipe) for recipe in rules.recipes.values()],
            "levers": [asdict(lever) for lever in rules.levers],
            "measures": [asdict(measure) for measure in rules.measures],
        }
    )


def _outcome(answer: CommandOutcome, _: Presentation) -> str:
    return dumped(answer.document)


RENDERER = Renderer(
    name="json",
    about="one document for programs, alone on stdout",
    analysis=_diagnosis,
    plan=_diagnosis,
    page=_diagnosis,
    comparison=_comparison,
    gate=_gate,
    rules=_rules,
    outcome=_outcome,
)
