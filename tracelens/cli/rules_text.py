"""The rules as text for a terminal: the list of all, or what is known of one.

In: loaded rules. Out: text. In cli/ because the reports must not know the rule files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracelens.cli.rules_markdown import claims_of, opinion, ranged
from tracelens.levers.definition import LeverRule
from tracelens.report import terminal
from tracelens.report.terminal import TerminalStyle
from tracelens.schemes.catalog import (
    AnyRule,
    ExpectedRange,
    FindingText,
    MeasureRule,
    Recipe,
    Rules,
    SchemeRule,
    SourcedClaim,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def listed(loaded: Rules, style: TerminalStyle) -> str:
    """Every rule in one line each."""
    return terminal.draw(_every(loaded), style)


def ids(loaded: Rules) -> str:
    """The ids alone, one per line; without the measures, which are opinions about other loops."""
    rules: tuple[SchemeRule | FindingText | Recipe, ...] = (
        *loaded.schemes,
        *loaded.findings.values(),
        *loaded.recipes.values(),
    )
    return "\n".join(rule.id for rule in rules)


def explained(rules: Sequence[AnyRule], style: TerminalStyle) -> str:
    """Everything that is known of the rules of one id."""
    return terminal.draw(_one(rules), style)


def _every(loaded: Rules) -> Iterator[RenderableType]:
    yield terminal.heading("Schemes")
    rows = [(rule.id, rule.title, rule.number or "–", *opinion(rule, loaded)) for rule in loaded.schemes]
    columns = ("id", "what it does", "number", "mean of five", "weighted")
    yield terminal.table(columns, rows, frozenset({3, 4}))
    yield terminal.heading("Findings")
    yield terminal.table(("id", "title"), [(f.id, f.title) for f in loaded.findings.values()], frozenset())
    yield terminal.heading("Edits")
    yield terminal.table(
        ("id", "title", "tier"), [(r.id, r.title, r.tier) for r in loaded.recipes.values()], frozenset()
    )
    yield terminal.heading("Levers")
    levers = [(rule.form, rule.title, rule.family) for rule in loaded.levers]
    yield terminal.table(("id", "title", "family"), levers, frozenset())
    yield terminal.heading("Measures of the training speed guide (opinions; not scored)")
    measures = [(m.id, m.title, _expected(m)) for m in loaded.measures]
    yield terminal.table(("id", "title", "expected"), measures, frozenset())
    yield terminal.next_command(f"tracelens rules {loaded.schemes[0].id}")


def _expected(measure: MeasureRule) -> str:
    return f"{measure.gain.low:g} to {measure.gain.high:g} %" if measure.gain else "–"


def _one(rules: Sequence[AnyRule]) -> Iterator[RenderableType]:
    for rule in rules:
        if isinstance(rule, SchemeRule):
            yield from _scheme(rule)
        elif isinstance(rule, FindingText):
            yield from _finding(rule)
        elif isinstance(rule, LeverRule):
            yield from _lever(rule)
        elif isinstance(rule, MeasureRule):
            yield from _measure(rule)
        else:
            yield from _recipe(rule)
    yield terminal.next_command("tracelens recommend")


def _scheme(rule: SchemeRule) -> Iterator[RenderableType]:
    yield terminal.heading(f"{rule.id}: {rule.title}")
    yield terminal.paragraph(rule.summary)
    yield terminal.paragraph(f"edits: {', '.join(edit.kind for edit in rule.edits)}")
    if rule.unsafe:
        yield terminal.paragraph(f"with --unsafe also: {', '.join(rule.unsafe)}")
    if rule.priors:
        yield terminal.heading("Priors, out of 10 (opinion, not evidence)")
        yield terminal.table(tuple(rule.priors), [[f"{v:g}" for v in rule.priors.values()]], frozenset(range(6)))
    yield terminal.paragraph(rule.priors_source)
    for title, spans in (("Gain, percent", rule.gain), ("Days", rule.days), ("Lines", rule.lines)):
        yield from _spans(title, spans)
    for title, claims in claims_of(rule):
        yield from _claims(title, claims)


def _spans(title: str, spans: Sequence[ExpectedRange]) -> Iterator[RenderableType]:
    if spans:
        yield terminal.heading(title)
        rows = [(ranged(span), span.note, f"{span.seed}: {span.section}") for span in spans]
        yield terminal.table(("expected", "", "said by"), rows, frozenset())


def _claims(title: str, claims: Sequence[SourcedClaim]) -> Iterator[RenderableType]:
    if claims:
        yield terminal.heading(title)
        rows = [(claim.text, f"{claim.seed}: {claim.section}") for claim in claims]
        yield terminal.table(("", "said by"), rows, frozenset())


def _finding(text: FindingText) -> Iterator[RenderableType]:
    yield terminal.heading(f"{text.id}: {text.title}")
    for line in (text.meaning, f"measured: {text.measured}", f"costs nothing when: {text.nothing_when}"):
        yield terminal.paragraph(line)
    yield terminal.paragraph(f"helps: {', '.join(text.helps) or 'no scheme of ours'}")


def _measure(measure: MeasureRule) -> Iterator[RenderableType]:
    yield terminal.heading(f"{measure.id}: {measure.title}")
    yield terminal.paragraph(measure.how)
    yield from _spans("Expected gain, percent (opinion, not evidence)", [measure.gain] if measure.gain else [])
    yield terminal.paragraph(f"watch out: {measure.caution}")
    if measure.inventory is not None:
        told = f"by the item {measure.inventory} of the run's inventory"
    else:
        told = f"by the variable {measure.variable}" if measure.variable else "by nothing in a recording of steps"
    yield terminal.paragraph(f"whether a loop has it is told {told}")


def _lever(rule: LeverRule) -> Iterator[RenderableType]:
    yield terminal.heading(f"{rule.form}: {rule.title}")
    for line in (f"when: {rule.when}", f"write: {rule.text}", f"cost: {rule.cost}", f"watch out: {rule.caution}"):
        yield terminal.paragraph(line)
    for title, code in (("Before", rule.before), ("After", rule.after)) if rule.before else ():
        yield terminal.heading(title)
        yield terminal.listing(code)
    for said in rule.references:
        yield terminal.paragraph(f"{said.text}: {said.url}" if said.url else said.text)


def _recipe(recipe: Recipe) -> Iterator[RenderableType]:
    yield terminal.heading(f"{recipe.id}: {recipe.title} ({recipe.tier})")
    for condition in recipe.conditions:
        yield terminal.paragraph(f"- {condition}")
    yield terminal.paragraph(f"by hand: {recipe.by_hand}")
    for title, code in (("Before", recipe.before), ("After", recipe.after)):
        yield terminal.heading(title)
        yield terminal.listing(code)
