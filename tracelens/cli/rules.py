"""`tracelens rules`: what is known of each scheme, finding and kind of edit, and where it comes from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import RulesAnswer, render
from tracelens.edit_kinds import DEFINITIONS
from tracelens.errors import UsageError
from tracelens.messages import joined, say

if TYPE_CHECKING:
    from tracelens.schemes.catalog import AnyRule, Rules


@click.command(short_help="List and explain the rules.")
@click.argument("name", metavar="[ID]", required=False, shell_complete=lambda *given: _complete(given[-1]))
@options.rules_folder
@options.presented("rules")
def rules(name: str | None, rules: Path | None, shown: Presentation) -> None:
    """List the rules, or explain one: a lever, a finding or a kind of change."""
    from tracelens.schemes import rules as rule_files

    loaded = rule_files.load(rules)
    named = () if name is None else _named(loaded, name)
    output.result(render(shown.renderer.rules, RulesAnswer(loaded, name, named), shown))


def everything(loaded: Rules) -> tuple[AnyRule, ...]:
    """Every rule that has an id: schemes, findings, edits, levers, measures; schemes first, whose ids some edits
    share."""
    return (*loaded.schemes, *loaded.findings.values(), *loaded.recipes.values(), *loaded.levers, *loaded.measures)


def _kinds_of_hunk(name: str) -> frozenset[str]:
    """The kinds of edit whose hunks are called like this: TL201 is the first hunk of kind 2."""
    match = re.fullmatch(r"TL(\d)\d{2,}|TL(\d{2,})-\d+", name, re.IGNORECASE)
    number = int(match[1] or match[2]) if match else None
    return frozenset(kind.id for kind in DEFINITIONS if kind.hunk == number)


def _complete(incomplete: str) -> list[str]:
    from tracelens.schemes import rules as rule_files

    return sorted({rule.id for rule in everything(rule_files.load()) if rule.id.startswith(incomplete)})


def _named(loaded: Rules, name: str) -> tuple[AnyRule, ...]:
    """What has this id: mostly one; a scheme may share it with the edit that it is made of."""
    every = everything(loaded)
    wanted = _kinds_of_hunk(name) or {name}
    named = tuple(rule for rule in every if rule.id in wanted)
    if named:
        return named
    known = list(dict.fromkeys(rule.id for rule in every))
    raise UsageError(
        say("there is no rule {name!r}.{did_you_mean}", name=name, did_you_mean=options.did_you_mean(name, known)),
        hint=say("one of: {known}", known=joined(", ", known)),
    )
