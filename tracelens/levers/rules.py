"""Reads `rules/levers/*.yaml`.

In: the fields of one file. Out: its `LeverRule`; mistakes are collected by the fields, like those of all rule files.
The keys are listed in docs/rules.md.
"""

from __future__ import annotations

import re
from typing import Any

from tracelens.edit_kinds import EDIT_DEFINITIONS
from tracelens.levers.definition import (
    FLAGS,
    LEVER_NEEDS,
    TAKES,
    DoneWhen,
    LeverReference,
    LeverRule,
    LeverValue,
)
from tracelens.messages import joined, say
from tracelens.model import LEVER_EFFECTS, LEVER_FAMILIES, OWNER_KINDS, TOGGLE_KINDS, OwnerKind, Toggle
from tracelens.rule_files.fields import Fields

FORM = "levers/*.yaml"
MOST_INTERVAL = 100_000


def read(fields: Fields) -> LeverRule:
    """One file. Its `id` must be the name of the file, which the caller checks."""
    value = _value(fields.inner("value")) if fields.has("value") else LeverValue()
    rule = LeverRule(
        id=fields.text("id"),
        family=fields.choice("family", LEVER_FAMILIES),
        title=fields.prose("title"),
        owners=_owners(fields),
        callees=fields.texts("callees") if fields.has("callees") else (),
        needs=fields.choices("needs", LEVER_NEEDS) if fields.has("needs") else (),
        value=value,
        toggles=fields.each("toggles", _toggle, empty=True),
        effect=fields.choice("effect", LEVER_EFFECTS),
        text=fields.prose("text"),
        when=fields.prose("when"),
        cost=fields.prose("cost"),
        caution=fields.prose("caution"),
        code=fields.text("code", default=""),
        recipe=fields.choice("recipe", tuple(EDIT_DEFINITIONS)) if fields.has("recipe") else None,
        interval=int(fields.number("interval", 2, MOST_INTERVAL)) if fields.has("interval") else 0,
        done_when=_done_when(fields.inner("done_when")) if fields.has("done_when") else None,
        before=fields.text("before", default=""),
        after=fields.text("after", default=""),
        guide=fields.text("guide", default=""),
        references=fields.each("references", _reference) if fields.has("references") else (),
    )
    _check(rule, fields)
    return rule


def _check(rule: LeverRule, fields: Fields) -> None:
    if "=" in rule.id:
        fields.wrong("id", say("expected an id without '='"))
    if "{value}" in rule.text and rule.value.takes == "nothing":
        fields.wrong("text", say("names {{value}}, and the lever takes none"))
    try:
        re.compile(rule.code)
    except re.error as error:
        fields.wrong("code", say("is no regular expression: {error}", error=error))
    if bool(rule.before) != bool(rule.after):
        fields.wrong("before", say("expected together with `after`"))


def _owners(fields: Fields) -> tuple[OwnerKind, ...]:
    kinds: tuple[Any, ...] = fields.choices("owners", OWNER_KINDS)
    return kinds


def _value(fields: Fields) -> LeverValue:
    takes = fields.choice("takes", TAKES)
    low = high = 0
    choices: tuple[str, ...] = ()
    if takes == "integer":
        low, high = int(fields.number("low", 0, 1_000_000)), int(fields.number("high", 0, 1_000_000))
        if low > high:
            fields.wrong("low", say("expected low not above high"))
    if takes == "choice":
        choices = fields.texts("choices")
    usual = fields.texts("usual") if fields.has("usual") else ()
    if choices and not set(usual) <= set(choices):
        fields.wrong("usual", say("expected some of {choices}", choices=joined(", ", choices)))
    if takes == "integer" and any(not text.isdecimal() or not low <= int(text) <= high for text in usual):
        fields.wrong("usual", say("expected whole numbers from {low} to {high}, as texts", low=low, high=high))
    optional = fields.has("optional") and fields.plain("optional") is True
    fields.done()
    return LeverValue(takes, low, high, choices, usual, optional)


def _toggle(fields: Fields) -> Toggle:
    kind = fields.choice("kind", TOGGLE_KINDS)
    name = fields.choice("name", FLAGS) if kind == "flag" else fields.text("name", default="")
    return Toggle(kind, name, fields.plain("value") if fields.has("value") else None)


def _done_when(fields: Fields) -> DoneWhen:
    found = DoneWhen(
        inventory=fields.text("inventory") if fields.has("inventory") else None,
        variable=fields.text("variable") if fields.has("variable") else None,
        setting=fields.text("setting") if fields.has("setting") else None,
        equals=fields.texts("equals", empty=True) if fields.has("equals") else (),
    )
    if sum(where is not None for where in (found.inventory, found.variable, found.setting)) != 1:
        fields.wrong("inventory", say("expected one of inventory, variable and setting"))
    if found.setting is not None and not found.equals:
        fields.wrong("equals", say("is missing: which value of the setting means that it is done"))
    fields.done()
    return found


def _reference(fields: Fields) -> LeverReference:
    return LeverReference(fields.prose("text"), fields.text("url", default=""))
