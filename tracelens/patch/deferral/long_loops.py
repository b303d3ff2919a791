"""Whether a loop may go on for all steps of a training, so that a list that is read after it grows without end.

In: the facts of a loop. Out: yes, or no more batches than an epoch has.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import head

_FOREVER = words("count cycle repeat")
_LENGTHS = words("shape size numel nelement")
_MOST_KEPT = 10_000
"""Values that wait till a loop ends: they take 512 bytes of the device's memory each."""


def may_be_endless(facts: LoopFacts) -> bool:
    """Whether nothing says that the loop is one over data."""
    calls = (part for part in walk(head(facts.loop)) if isinstance(part, cst.Call))
    return isinstance(facts.loop, cst.While) or any(_goes_on(facts, call) for call in calls)


def _goes_on(facts: LoopFacts, call: cst.Call) -> bool:
    called = dotted(call.func).rpartition(".")[2]
    if called == "range":
        return not any(_is_length(argument.value, facts) for argument in call.args) and not _is_short(call.args)
    return called in _FOREVER or (called == "iter" and len(call.args) > 1)


def _is_short(arguments: Sequence[cst.Arg]) -> bool:
    numbers = [one.value.evaluated_value for one in arguments if isinstance(one.value, cst.Integer)]
    return len(numbers) == len(arguments) and max(numbers, default=_MOST_KEPT) < _MOST_KEPT


def _is_length(value: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a number is made of how much data there is: `len(loader)`, `n // batch_size` of `n = x.shape[0]`."""
    known = list(value_types.values_of(value.value, facts)) if isinstance(value, cst.Name) else [value]
    return bool(known) and all(one is not None and any(map(_tells_length, walk(one))) for one in known)


def _tells_length(part: cst.CSTNode) -> bool:
    if isinstance(part, cst.Attribute):
        return part.attr.value in _LENGTHS
    return isinstance(part, cst.Call) and dotted(part.func) == "len"
