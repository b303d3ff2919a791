"""Values that never change while a loop runs, so that nothing of them has to wait: `len(loader)`, `args.log_every`.

In: a plan, and how it is made of the facts of its loop. Out: the plan in which the statements read such values where
they use them, if it is known as well as the other. The body of the loop must leave them alone by its text; whether the
rest of the project does, the plan is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from tracelens.patch.code.names import children, dotted, key, variables, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked

if TYPE_CHECKING:
    from tracelens.patch.deferral.planning import Deferral

_SHOWN = ("", "formatted", "number")
"""Kinds of captures that may be values of the host."""


def read_where_used(made: Deferral, make: Callable[[LoopFacts], Deferral]) -> Deferral:
    """The plan without constants among what waits."""
    facts = made.facts
    kept = (one for run in made.runs for one in run.captures if one.read in _SHOWN)
    parts = (part for one in kept if facts.varies(one.value) for part in _parts(one.value))
    steady = frozenset(facts.source.code(part) for part in parts if _is_constant(facts, part))
    try:
        other = make(replace(facts, steady=steady)) if steady else made
    except Blocked:
        return made
    same = other.unproved in ("", made.unproved) and other.drains == made.drains
    return other if same else made


def lengths_of_loaders(facts: LoopFacts, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The `len(loader)` of a statement that are constants, of loaders of torch's own.

    That its iterator counts in the loader, which is all that is known of it elsewhere, does not change its length.
    """
    for part in walk(statement) if facts.steady else ():
        if isinstance(part, cst.Call) and facts.source.code(part) in facts.steady and dotted(part.func) == "len":
            made = list(value_types.values_of(dotted(part.args[0].value), facts))
            if made and all(one is not None and _is_plain_loader(facts, one) for one in made):
                yield part


def _is_plain_loader(facts: LoopFacts, value: cst.BaseExpression) -> bool:
    """Whether a value is a `DataLoader` whose length is that of its data set."""
    if not isinstance(value, cst.Call) or facts.names.qualified(value.func) != "torch.utils.data.DataLoader":
        return False
    words = {one.keyword.value for one in value.args if one.keyword is not None}
    return not words & {"sampler", "batch_sampler"} and not any(one.star for one in value.args)


def _parts(value: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What may be a constant within a value: the length of something, a name, or an attribute of one."""
    if isinstance(value, cst.Call):
        whole = dotted(value.func) == "len" and len(value.args) == 1 and bool(dotted(value.args[0].value))
    else:
        whole = isinstance(value, (cst.Name, cst.Attribute)) and bool(dotted(value))
    if whole and isinstance(value, cst.BaseExpression):
        yield value
    else:
        for part in children(value):
            yield from _parts(part)


def _is_constant(facts: LoopFacts, part: cst.BaseExpression) -> bool:
    """Whether no line of the loop's body rebinds what a value is taken from, stores into it, or hands it to a call."""
    parent = facts.source.parent(part)
    if isinstance(parent, cst.Call) and parent.func is part:
        return False  # a method: what it gives is another matter
    roots = {key(variable) for variable in variables(part)}
    return bool(roots) and not roots & (facts.varying | facts.changed_in_body | facts.mutated)
