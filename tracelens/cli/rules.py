"""`tracelens rules`: what is known of each scheme, finding and kind of edit, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from tracelens.schemes.catalog import (
        ExpectedRange,
        FindingText,
        MeasureRule,
        Recipe,
        Rules,
        SchemeRule,
        SourcedClaim,
    )


@click.command(short_help="List and explain the rules.")
@click.argument("name", metavar="[ID]", required=False, shell_complete=lambda *given: _complete(given[-1]))
@options.rules_folder
@options.presented("text", "json", "markdown")
def rules(name: str | None, rules: Path | None, shown: Presentation) -> None:
    """List the rules, or explain one: a scheme, a finding or a kind of edit."""
    from tracelens.report import terminal
    from tracelens.schemes import rules as rule_files

    loaded = rule_files.load(rules)
    if shown.form == "json":
        output.document(_document(loaded) if name is None else asdict(_named(loaded, name)[0]))
    elif shown.form == "markdown":
        from tracelens.cli import rules_markdown

        output.result(rules_markdown.page(loaded) if name is None else rules_markdown.entry(_named(loaded, name)))
    elif shown.quiet and name is None:
        output.result("\n".join(rule.id for rule in everything(loaded) if rule not in loaded.measures))
    else:
        output.result(terminal.draw(_every(loaded) if name is None else _one(loaded, name), shown.look()))


def _every(loaded: Rules) -> Iterator[RenderableType]:
    from tracelens.cli.rules_markdown import opinion
    from tracelens.report import terminal

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
    yield terminal.heading("Measures of the training speed guide (opinions; not scored)")
    measures = [(m.id, m.title, _expected(m)) for m in loaded.measures]
    yield terminal.table(("id", "title", "expected"), measures, frozenset())
    yield terminal.next_command(f"tracelens rules {loaded.schemes[0].id}")


def _expected(measure: MeasureRule) -> str:
    return f"{measure.gain.low:g} to {measure.gain.high:g} %" if measure.gain else "–"


def _document(loaded: Rules) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "weights": dict(loaded.weights),
        "schemes": [asdict(rule) for rule in loaded.schemes],
        "findings": [asdict(text) for text in loaded.findings.values()],
        "edits": [asdict(recipe) for recipe in loaded.recipes.values()],
        "measures": [asdict(measure) for measure in loaded.measures],
    }


def everything(loaded: Rules) -> tuple[SchemeRule | FindingText | Recipe | MeasureRule, ...]:
    """Every rule that has an id: schemes, findings, edits, measures; schemes first, whose ids some edits share."""
    return (*loaded.schemes, *loaded.findings.values(), *loaded.recipes.values(), *loaded.measures)


def _complete(incomplete: str) -> list[str]:
    from tracelens.schemes import rules as rule_files

    return sorted({rule.id for rule in everything(rule_files.load()) if rule.id.startswith(incomplete)})


def _named(loaded: Rules, name: str) -> tuple[SchemeRule | FindingText | Recipe | MeasureRule, ...]:
    """What has this id: mostly one; a scheme may share it with the edit that it is made of."""
    every = everything(loaded)
    found = tuple(rule for rule in every if rule.id == name)
    if found:
        return found
    known = list(dict.fromkeys(rule.id for rule in every))
    raise UsageError(
        f"there is no rule {name!r}.{options.did_you_mean(name, known)}", hint=f"one of: {', '.join(known)}"
    )


def _one(loaded: Rules, name: str) -> Iterator[RenderableType]:
    from tracelens.report import terminal
    from tracelens.schemes.catalog import FindingText, MeasureRule, SchemeRule

    for rule in _named(loaded, name):
        if isinstance(rule, SchemeRule):
            yield from _scheme(rule)
        elif isinstance(rule, FindingText):
            yield from _finding(rule)
        elif isinstance(rule, MeasureRule):
            yield from _measure(rule)
        else:
            yield from _recipe(rule)
    yield terminal.next_command("tracelens recommend")


def _scheme(rule: SchemeRule) -> Iterator[RenderableType]:
    from tracelens.cli.rules_markdown import claims_of
    from tracelens.report import terminal

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
    from tracelens.cli.rules_markdown import ranged
    from tracelens.report import terminal

    if spans:
        yield terminal.heading(title)
        rows = [(ranged(span), span.note, f"{span.seed}: {span.section}") for span in spans]
        yield terminal.table(("expected", "", "said by"), rows, frozenset())


def _claims(title: str, claims: Sequence[SourcedClaim]) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    if claims:
        yield terminal.heading(title)
        rows = [(claim.text, f"{claim.seed}: {claim.section}") for claim in claims]
        yield terminal.table(("", "said by"), rows, frozenset())


def _finding(text: FindingText) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    yield terminal.heading(f"{text.id}: {text.title}")
    for line in (text.meaning, f"measured: {text.measured}", f"costs nothing when: {text.nothing_when}"):
        yield terminal.paragraph(line)
    yield terminal.paragraph(f"helps: {', '.join(text.helps) or 'no scheme of ours'}")


def _measure(measure: MeasureRule) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    yield terminal.heading(f"{measure.id}: {measure.title}")
    yield terminal.paragraph(measure.how)
    yield from _spans("Expected gain, percent (opinion, not evidence)", [measure.gain] if measure.gain else [])
    yield terminal.paragraph(f"watch out: {measure.caution}")
    if measure.inventory is not None:
        told = f"by the item {measure.inventory} of the run's inventory"
    else:
        told = f"by the variable {measure.variable}" if measure.variable else "by nothing in a recording of steps"
    yield terminal.paragraph(f"whether a loop has it is told {told}")


def _recipe(recipe: Recipe) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    yield terminal.heading(f"{recipe.id}: {recipe.title} ({recipe.tier})")
    for condition in recipe.conditions:
        yield terminal.paragraph(f"- {condition}")
    yield terminal.paragraph(f"by hand: {recipe.by_hand}")
    for title, code in (("Before", recipe.before), ("After", recipe.after)):
        yield terminal.heading(title)
        yield terminal.listing(code)
