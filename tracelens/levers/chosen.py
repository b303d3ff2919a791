"""A lever as the user names it: `bf16`, `workers=4`, `line=train.py:61/10`.

In: a word of the command line. Out: a `ChosenLever`, or a `UsageError` that says what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracelens.errors import UsageError
from tracelens.levers.definition import ChosenLever, LeverRule, LeverValue, by_id
from tracelens.messages import joined, say
from tracelens.rule_files.fields import nearest

_PLACE = re.compile(r".+:\d+(/\d+)?")


def chosen(word: str, rules: Sequence[LeverRule], others: Iterable[str] = ()) -> tuple[ChosenLever, ...]:
    """The levers that a word names: one, or those of its usual values where it names none.

    `others` are ids that no rule describes (the schemes): for them the result is empty. Raises `UsageError` for a word
    that names no lever, or a value that the lever does not take.
    """
    lever_id, equals, value = word.partition("=")
    if word in set(others):
        return ()
    rule = by_id(rules, lever_id)
    if rule is None:
        known = [*(rule.form for rule in rules), *others]
        raise UsageError(
            say("unknown lever: {word}.{meant}", word=word, meant=_meant(lever_id, rules, others)),
            hint=say("all levers: {known}", known=joined(", ", known)),
        )
    if not rule.toggles:
        raise UsageError(
            say("{rule} cannot be tried by itself", rule=rule.id), hint=say("by hand: {text}", text=rule.text)
        )
    if equals:
        _check(rule, value)
        return (ChosenLever(rule, value),)
    if rule.value.takes == "nothing" or rule.value.optional:
        return (ChosenLever(rule),)
    if not rule.value.usual:
        raise UsageError(say("{rule} needs a value", rule=rule.id), hint=say("write {form}", form=rule.form))
    return tuple(ChosenLever(rule, usual) for usual in rule.value.usual)


def _check(rule: LeverRule, value: str) -> None:
    """Raise `UsageError` for a value that the lever does not take."""
    if not _takes(rule.value, value):
        raise UsageError(
            say("{rule} does not take {value!r}", rule=rule.id, value=value),
            hint=say("write {expected}", expected=_expected(rule)),
        )


def _takes(asked: LeverValue, value: str) -> bool:
    if asked.takes == "integer":
        return value.isascii() and value.isdecimal() and asked.low <= int(value) <= asked.high
    if asked.takes == "choice":
        return value in asked.choices
    return asked.takes == "place" and _PLACE.fullmatch(value) is not None


def _expected(rule: LeverRule) -> str:
    asked = rule.value
    if asked.takes == "integer":
        return say("{form}, with a whole number from {low} to {high}", form=rule.form, low=asked.low, high=asked.high)
    return say("{form}, or {form}/K for every K-th call", form=rule.form) if asked.takes == "place" else rule.form


def _meant(lever_id: str, rules: Sequence[LeverRule], others: Iterable[str]) -> str:
    """' Did you mean …?', for the name of an edit the lever that it writes; or nothing when no known id is near."""
    forms = {rule.id: rule.form for rule in rules} | {name: name for name in others}
    written = [rule.form for rule in rules if rule.recipe == lever_id]
    match = re.search(r"'(.+)'", nearest(lever_id, forms))
    meant = written[0] if len(written) == 1 else forms[match[1]] if match else ""
    return say(" Did you mean {forms}?", forms=meant) if meant else ""
