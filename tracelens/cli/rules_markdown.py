"""The rules as pages of Markdown: what docs/rules.md holds, and what `tracelens rules --format markdown` prints.

In: loaded rules. Out: text. In cli/ because the reports must not know the rule files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracelens.messages import say
from tracelens.report.markdown_syntax import block, bullets, code, document, plain, table

if TYPE_CHECKING:
    from tracelens.levers.definition import LeverRule
    from tracelens.schemes.catalog import (
        AnyRule,
        ExpectedRange,
        FindingText,
        MeasureRule,
        Recipe,
        Rules,
        SchemeRule,
        SourcedClaim,
        StageRule,
    )


def page(loaded: Rules) -> str:
    """Every rule: weights and scales, schemes, stages, findings, edits."""
    return document(_page(loaded))


def entry(rules: Sequence[AnyRule]) -> str:
    """The rules of one id."""
    return document(part for rule in rules for part in _entry(rule, "#"))


def _page(loaded: Rules) -> Iterator[str]:
    yield "# Rules"
    yield (
        "What TraceLens knows beforehand, generated from `rules/` by `tracelens rules --format markdown`. Scores and "
        "gains in here are opinions about other people's loops, each with its source (the five documents this project "
        "comes from); on a run they stand beside the evidence and are replaced by it."
    )
    yield "## Weights and scales"
    yield table(
        ("criterion", "weight"), [(name, f"{share:g} %") for name, share in loaded.weights.items()], frozenset({1})
    )
    yield table(
        ("score", "from", "why", "points (quantity → score)"),
        [
            (name, f"{plain(scale.measure)} ({plain(scale.unit)})", plain(scale.why), _points(scale.points))
            for name, scale in loaded.scales.items()
        ],
    )
    yield "## Schemes"
    yield table(
        ("scheme", "number", "what it does", "mean of five", "weighted"),
        [_row(rule, loaded) for rule in loaded.schemes],
        frozenset({3, 4}),
    )
    for rule in loaded.schemes:
        yield from _entry(rule, "###")
    yield "## Stages"
    yield from _stages(loaded.stages)
    yield "## Findings"
    for text in loaded.findings.values():
        yield from _entry(text, "###")
    yield "## Edits"
    for recipe in loaded.recipes.values():
        yield from _entry(recipe, "###")
    yield from _levers(loaded)
    yield "## Measures of the training speed guide"
    yield (
        "What else that seed names. They change the computation itself, so no replay can tell what they give: they "
        "have no score, and what the guide expects of them is its opinion. On a run, `recommend` lists those that "
        "the loop is known not to have."
    )
    for measure in loaded.measures:
        yield from _entry(measure, "###")


def _levers(loaded: Rules) -> Iterator[str]:
    yield "## Levers"
    yield (
        "What `tracelens try` switches on in a copy of the script, without a change of your files, and measures beside "
        "the original. A lever comes first on a run where its owners hold the step's time."
    )
    yield table(
        ("lever", "family", "what it does", "owners"),
        [(code(rule.form), rule.family, plain(rule.title), ", ".join(rule.owners)) for rule in loaded.levers],
    )
    for lever in loaded.levers:
        yield from _lever(lever, "###")


def _points(points: Sequence[tuple[float, float]]) -> str:
    return ", ".join(f"{x:g} → {y:g}" for x, y in points)


def _row(rule: SchemeRule, loaded: Rules) -> tuple[str, ...]:
    return code(rule.id), rule.number or "–", plain(rule.title), *opinion(rule, loaded)


def opinion(rule: SchemeRule, loaded: Rules) -> tuple[str, str]:
    """The priors' mean without risk, as the seeds print it, and weighted."""
    if rule.priors is None:
        return "–", "–"
    five = [score for name, score in rule.priors.items() if name != "risk"]
    total = sum(loaded.weights[name] * score for name, score in rule.priors.items()) / 100
    return f"{sum(five) / len(five):.1f}", f"{total:.2f}"


def _entry(rule: AnyRule, level: str) -> Iterator[str]:
    from tracelens.levers.definition import LeverRule
    from tracelens.schemes.catalog import FindingText, MeasureRule, SchemeRule

    if isinstance(rule, SchemeRule):
        yield from _scheme(rule, level)
    elif isinstance(rule, FindingText):
        yield from _finding(rule, level)
    elif isinstance(rule, LeverRule):
        yield from _lever(rule, level)
    elif isinstance(rule, MeasureRule):
        yield from _measure(rule, level)
    else:
        yield from _recipe(rule, level)


def _scheme(rule: SchemeRule, level: str) -> Iterator[str]:
    yield f"{level} Scheme {code(rule.id)}: {plain(rule.title)}"
    yield plain(rule.summary)
    yield f"Edits: {', '.join(code(edit.kind) for edit in rule.edits)}. Change of the code: {rule.change}."
    if rule.priors:
        yield table(tuple(rule.priors), [[f"{score:g}" for score in rule.priors.values()]], frozenset(range(6)))
        yield plain(rule.priors_source)
    spans = [*_spans("gain, percent", rule.gain), *_spans("working days", rule.days), *_spans("lines", rule.lines)]
    if spans:
        yield table(("expected", "range", "note", "said by"), spans)
    for title, claims in claims_of(rule):
        if claims:
            yield f"{title}:"
            yield bullets(f"{plain(claim.text)} ({_source(claim)})" for claim in claims)


def claims_of(rule: SchemeRule) -> tuple[tuple[str, Sequence[SourcedClaim]], ...]:
    """What is said of a scheme, by its heading."""
    return (
        (say("When it applies"), rule.applicability),
        (say("For it"), rule.pros),
        (say("Against it"), rule.cons),
        (say("Risks"), rule.risks),
        (say("References"), rule.references),
        (say("Where it stands in the seeds, contradictions included"), rule.sources),
    )


def _spans(what: str, spans: Sequence[ExpectedRange]) -> list[tuple[str, ...]]:
    return [(what, ranged(span), plain(span.note), _source(span)) for span in spans]


def ranged(span: ExpectedRange) -> str:
    return f"{span.low:g}" if span.low == span.high else say("{low:g} to {high:g}", low=span.low, high=span.high)


def _source(said: SourcedClaim | ExpectedRange) -> str:
    return f"{plain(said.seed)}: {plain(said.section)}"


def _stages(stages: Sequence[StageRule]) -> Iterator[str]:
    rows = [
        (
            str(stage.number),
            plain(stage.title),
            ", ".join(map(code, stage.schemes)),
            "; ".join(plain(g.text) for g in stage.goals),
        )
        for stage in stages
    ]
    yield table(("stage", "title", "schemes", "goals"), rows)


def _finding(text: FindingText, level: str) -> Iterator[str]:
    yield f"{level} Finding {code(text.id)}: {plain(text.title)}"
    yield plain(text.meaning)
    yield f"Measured: {plain(text.measured)}"
    yield f"Costs nothing when: {plain(text.nothing_when)}"
    if text.helps:
        yield "Helps:"
        yield bullets(plain(line) for line in text.helps)


def _measure(measure: MeasureRule, level: str) -> Iterator[str]:
    yield f"{level} Measure {code(measure.id)}: {plain(measure.title)}"
    yield plain(measure.how)
    if measure.gain:
        yield table(("expected", "range", "note", "said by"), _spans("gain, percent", [measure.gain]))
    yield f"Watch out: {plain(measure.caution)}"


def _lever(rule: LeverRule, level: str) -> Iterator[str]:
    yield f"{level} Lever {code(rule.id)}: {plain(rule.title)}"
    yield f"When: {plain(rule.when)}"
    yield f"What to write: {plain(rule.text)}."
    yield f"Cost: {plain(rule.cost)}"
    yield f"Watch out: {plain(rule.caution)}"
    if rule.before:
        yield "Before:"
        yield block(rule.before, "python")
        yield "After:"
        yield block(rule.after, "python")
    if rule.guide:
        yield f"In the training speed guide: {plain(rule.guide)}."
    if rule.references:
        yield bullets(f"{plain(said.text)}: <{said.url}>" if said.url else plain(said.text) for said in rule.references)


def _recipe(recipe: Recipe, level: str) -> Iterator[str]:
    yield f"{level} Edit {code(recipe.id)}: {plain(recipe.title)}"
    yield f"Tier: {recipe.tier}. It is made where:"
    yield bullets(plain(condition) for condition in recipe.conditions)
    yield f"By hand: {plain(recipe.by_hand)}"
    yield "Before:"
    yield block(recipe.before, "python")
    yield "After:"
    yield block(recipe.after, "python")
