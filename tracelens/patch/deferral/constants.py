"""Values that never change while a loop runs, so that nothing of them has to wait: `epoch`, `args.log_every`.

In: a plan, and how it is made of the facts of its loop. Out: the plan in which the statements read such values where
they use them, if it is known as well as the other. The body of the loop must leave them alone by its text; whether the
rest of the project does, the plan is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from tracelens.patch.code.names import children, dotted, key, variables
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


def _parts(value: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What may be a constant within a value: a name, or an attribute of one. The length of a loader is that of its data
    set and its sampler, which may change."""
    if isinstance(value, (cst.Name, cst.Attribute)) and dotted(value):
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
