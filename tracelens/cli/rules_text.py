"""The rules as text for a terminal: the list of all, or what is known of one.

In: loaded rules. Out: text. In cli/ because the reports must not know the rule files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracelens.cli.rules_markdown import claims_of, opinion, ranged
from tracelens.levers.definition import LeverRule
from tracelens.messages import joined, say
from tracelens.report import terminal, wording
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
    yield terminal.heading(say("Schemes"))
    rows = [(rule.id, rule.title, rule.number or "–", *opinion(rule, loaded)) for rule in loaded.schemes]
    columns = (say("id"), say("what it does"), say("number"), say("mean of five"), say("weighted"))
    yield terminal.table(columns, rows, frozenset({3, 4}))
    yield terminal.heading(say("Findings"))
    yield terminal.table((say("id"), say("title")), [(f.id, f.title) for f in loaded.findings.values()], frozenset())
    yield terminal.heading(say("Edits"))
    yield terminal.table(
        (say("id"), say("title"), say("tier")), [(r.id, r.title, r.tier) for r in loaded.recipes.values()], frozenset()
    )
    yield terminal.heading(say("Levers"))
    levers = [(rule.form, rule.title, rule.family) for rule in loaded.levers]
    yield terminal.table((say("id"), say("title"), say("family")), levers, frozenset())
    yield terminal.heading(say("Measures of the training speed guide (opinions; not scored)"))
    measures = [(m.id, m.title, _expected(m)) for m in loaded.measures]
    yield terminal.table((say("id"), say("title"), say("expected")), measures, frozenset())
    yield terminal.next_command(f"tracelens rules {loaded.schemes[0].id}")


def _expected(measure: MeasureRule) -> str:
    gain = measure.gain
    return say("{low:g} to {high:g} %", low=gain.low, high=gain.high) if gain else "–"


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


def _heading(name: str, title: str) -> str:
    return say("{name}: {title}", name=name, title=title)


def _scheme(rule: SchemeRule) -> Iterator[RenderableType]:
    yield terminal.heading(_heading(rule.id, rule.title))
    yield terminal.paragraph(rule.summary)
    yield terminal.paragraph(say("edits: {edits}", edits=joined(", ", (edit.kind for edit in rule.edits))))
    if rule.unsafe:
        yield terminal.paragraph(say("with --unsafe also: {unsafe}", unsafe=joined(", ", rule.unsafe)))
    if rule.priors:
        yield terminal.heading(say("Priors, out of 10 (opinion, not evidence)"))
        names = tuple(wording.CRITERION_WORD[name] for name in rule.priors)
        yield terminal.table(names, [[f"{v:g}" for v in rule.priors.values()]], frozenset(range(6)))
    yield terminal.paragraph(rule.priors_source)
    for title, spans in ((say("Gain, percent"), rule.gain), (say("Days"), rule.days), (say("Lines"), rule.lines)):
        yield from _spans(title, spans)
    for kind, claims in claims_of(rule):
        yield from _claims(kind, claims)


def _spans(title: str, spans: Sequence[ExpectedRange]) -> Iterator[RenderableType]:
    if spans:
        yield terminal.heading(title)
        rows = [(ranged(span), span.note, f"{span.seed}: {span.section}") for span in spans]
        yield terminal.table((say("expected"), "", say("said by")), rows, frozenset())


def _claims(title: str, claims: Sequence[SourcedClaim]) -> Iterator[RenderableType]:
    if claims:
        yield terminal.heading(title)
        rows = [(claim.text, f"{claim.seed}: {claim.section}") for claim in claims]
        yield terminal.table(("", say("said by")), rows, frozenset())


def _finding(text: FindingText) -> Iterator[RenderableType]:
    yield terminal.heading(_heading(text.id, text.title))
    for line in (
        text.meaning,
        say("measured: {measured}", measured=text.measured),
        say("costs nothing when: {nothing_when}", nothing_when=text.nothing_when),
    ):
        yield terminal.paragraph(line)
    yield terminal.paragraph(say("helps: {helps}", helps=joined(", ", text.helps) or say("no scheme of ours")))


def _measure(measure: MeasureRule) -> Iterator[RenderableType]:
    yield terminal.heading(_heading(measure.id, measure.title))
    yield terminal.paragraph(measure.how)
    yield from _spans(say("Expected gain, percent (opinion, not evidence)"), [measure.gain] if measure.gain else [])
    yield terminal.paragraph(say("watch out: {caution}", caution=measure.caution))
    if measure.inventory is not None:
        told: str = say("by the item {inventory} of the run's inventory", inventory=measure.inventory)
    else:
        told = (
            say("by the variable {variable}", variable=measure.variable)
            if measure.variable
            else say("by nothing in a recording of steps")
        )
    yield terminal.paragraph(say("whether a loop has it is told {told}", told=told))


def _lever(rule: LeverRule) -> Iterator[RenderableType]:
    yield terminal.heading(_heading(rule.form, rule.title))
    for line in (
        say("when: {when}", when=rule.when),
        say("write: {text}", text=rule.text),
        say("cost: {cost}", cost=rule.cost),
        say("watch out: {caution}", caution=rule.caution),
    ):
        yield terminal.paragraph(line)
    for title, code in ((say("Before"), rule.before), (say("After"), rule.after)) if rule.before else ():
        yield terminal.heading(title)
        yield terminal.listing(code)
    for said in rule.references:
        yield terminal.paragraph(say("{text}: {url}", text=said.text, url=said.url) if said.url else said.text)


def _recipe(recipe: Recipe) -> Iterator[RenderableType]:
    yield terminal.heading(say("{id}: {title} ({tier})", id=recipe.id, title=recipe.title, tier=recipe.tier))
    for condition in recipe.conditions:
        yield terminal.paragraph(say("- {condition}", condition=condition))
    yield terminal.paragraph(say("by hand: {by_hand}", by_hand=recipe.by_hand))
    for title, code in ((say("Before"), recipe.before), (say("After"), recipe.after)):
        yield terminal.heading(title)
        yield terminal.listing(code)
