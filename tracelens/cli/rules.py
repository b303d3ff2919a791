"""`tracelens rules`: what is known of each scheme, finding and kind of edit, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Shown
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from tracelens.schemes.catalog import Claim, FindingText, Recipe, Rules, SchemeRule, Span


@click.command(short_help="List and explain the rules.")
@click.argument("name", metavar="[ID]", required=False, shell_complete=lambda *given: _complete(given[-1]))
@options.rules_folder
@options.presented("text", "json", "markdown")
def rules(name: str | None, rules: Path | None, shown: Shown) -> None:
    """List the rules, or explain one: a scheme, a finding or a kind of edit."""
    from tracelens.report import terminal
    from tracelens.schemes import rules as rule_files

    loaded = rule_files.load(rules)
    if shown.form == "json":
        output.document(_document(loaded) if name is None else asdict(_named(loaded, name)[0]))
    elif shown.form == "markdown":
        from tracelens.cli import handbook

        output.result(handbook.page(loaded) if name is None else handbook.entry(_named(loaded, name)))
    elif shown.quiet and name is None:
        output.result("\n".join(rule.id for rule in everything(loaded)))
    else:
        output.result(terminal.draw(_every(loaded) if name is None else _one(loaded, name), shown.look()))


def _every(loaded: Rules) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    yield terminal.heading("Schemes")
    rows = [(rule.id, rule.title, "–" if rule.number is None else rule.number) for rule in loaded.schemes]
    yield terminal.table(("id", "what it does", "number"), rows, frozenset())
    yield terminal.heading("Findings")
    yield terminal.table(("id", "title"), [(f.id, f.title) for f in loaded.findings.values()], frozenset())
    yield terminal.heading("Edits")
    yield terminal.table(
        ("id", "title", "tier"), [(r.id, r.title, r.tier) for r in loaded.recipes.values()], frozenset()
    )
    yield terminal.next_command(f"tracelens rules {loaded.schemes[0].id}")


def _document(loaded: Rules) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "weights": dict(loaded.weights),
        "schemes": [asdict(rule) for rule in loaded.schemes],
        "findings": [asdict(text) for text in loaded.findings.values()],
        "edits": [asdict(recipe) for recipe in loaded.recipes.values()],
    }


def everything(loaded: Rules) -> tuple[SchemeRule | FindingText | Recipe, ...]:
    """Every rule that has an id: schemes, findings, edits; schemes first, whose ids some edits share."""
    return (*loaded.schemes, *loaded.findings.values(), *loaded.recipes.values())


def _complete(incomplete: str) -> list[str]:
    from tracelens.schemes import rules as rule_files

    return sorted({rule.id for rule in everything(rule_files.load()) if rule.id.startswith(incomplete)})


def _named(loaded: Rules, name: str) -> tuple[SchemeRule | FindingText | Recipe, ...]:
    """What has this id: mostly one; a scheme may share it with the edit that it is made of."""
    every = everything(loaded)
    found = tuple(rule for rule in every if rule.id == name)
    if found:
        return found
    guess = options.did_you_mean(name, [rule.id for rule in every])
    raise UsageError(f"there is no rule {name!r}.{guess}", hint=f"one of: {', '.join(rule.id for rule in every)}")


def _one(loaded: Rules, name: str) -> Iterator[RenderableType]:
    from tracelens.report import terminal
    from tracelens.schemes.catalog import FindingText, SchemeRule

    for rule in _named(loaded, name):
        if isinstance(rule, SchemeRule):
            yield from _scheme(rule)
        elif isinstance(rule, FindingText):
            yield from _finding(rule)
        else:
            yield from _recipe(rule)
    yield terminal.next_command("tracelens recommend")


def _scheme(rule: SchemeRule) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    yield terminal.heading(f"{rule.id}: {rule.title}")
    yield terminal.paragraph(rule.summary)
    yield terminal.paragraph(f"edits: {', '.join(edit.kind for edit in rule.edits)}")
    if rule.priors:
        yield terminal.heading("Priors, out of 10 (opinion, not evidence)")
        yield terminal.table(tuple(rule.priors), [[f"{v:g}" for v in rule.priors.values()]], frozenset(range(6)))
    for title, spans in (("Gain, percent", rule.gain), ("Days", rule.days), ("Lines", rule.lines)):
        yield from _spans(title, spans)
    for title, claims in (
        ("When it applies", rule.applicability),
        ("For it", rule.pros),
        ("Against it", rule.cons),
        ("Risks", rule.risks),
        ("References", rule.references),
    ):
        yield from _claims(title, claims)


def _spans(title: str, spans: Sequence[Span]) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    if spans:
        yield terminal.heading(title)
        rows = [(f"{span.low:g} to {span.high:g}", span.note, f"{span.seed}: {span.section}") for span in spans]
        yield terminal.table(("expected", "", "said by"), rows, frozenset())


def _claims(title: str, claims: Sequence[Claim]) -> Iterator[RenderableType]:
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


def _recipe(recipe: Recipe) -> Iterator[RenderableType]:
    from tracelens.report import terminal

    yield terminal.heading(f"{recipe.id}: {recipe.title} ({recipe.tier})")
    for condition in recipe.conditions:
        yield terminal.paragraph(f"- {condition}")
    yield terminal.paragraph(f"by hand: {recipe.by_hand}")
    for title, code in (("Before", recipe.before), ("After", recipe.after)):
        yield terminal.heading(title)
        yield terminal.listing(code)
