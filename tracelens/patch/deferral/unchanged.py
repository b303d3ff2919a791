"""Tensors that hold the same numbers some statements later, so that one copy serves what is read before and after them.

In: a value that is read, and the statements in between. Out: whether it is proved, likely or not to be told. A step
writes into parameters, so the memory has to be the value's own, and nobody else may have it: every line of the loop
that says the name reads it, or calls its `backward()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import libcst as cst

from tracelens.patch.code.names import dotted, method_of, own_names, rebound, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.effects.vocabulary import shares_memory
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts

Certainty = Literal["proved", "likely", ""]
_READS = words("item tolist backward dtype shape device")
_HANDS_ON = words("detach cpu data")
"""Gives a tensor that may have the same memory, and so must be read at once."""
_STEPS = words("backward step zero_grad clip_grad_norm_ clip_grad_value_ update")
"""What a training step calls between two reads of its loss."""


def unchanged(facts: LoopFacts, capture: Capture, between: Sequence[cst.CSTNode]) -> Certainty:
    """Whether a tensor that is read has the same numbers behind the statements in between. `likely`: it is computed in
    a call that may give memory of others, and only a training step is made there."""
    value = capture.value
    if not isinstance(value, cst.Name) or not capture.read or not _is_only_read(facts, value.value):
        return ""
    if facts.reached is not None and facts.reached.may_change(facts.source.place(value)):
        return ""
    parts = [part for node in between for part in walk(node)]
    if any(value.value in rebound(part) | facts.behind(part).changed for part in (*parts, *between)):
        return ""
    made = list(value_types.values_of(value.value, facts))
    if made and all(one is not None and value_types.has_own_memory(one, facts) for one in made):
        return "proved"
    return "likely" if made and all(map(_is_computed, made)) and all(map(_is_step, between)) else ""


def _is_computed(made: cst.BaseExpression | None) -> bool:
    """Whether a value is no view of another one, as far as the line that makes it tells."""
    return isinstance(made, cst.BinaryOperation) or (isinstance(made, cst.Call) and not shares_memory(method_of(made)))


def _is_only_read(facts: LoopFacts, name: str) -> bool:
    """Whether every mention in the loop binds the name, reads it or computes its gradients; those in functions that
    have no such name of their own read it."""
    mentions = (node for node in walk(facts.loop) if isinstance(node, cst.Name) and node.value == name)
    if not all(_binds(facts, node) or _reads(facts, node) for node in mentions):
        return False
    functions = (node for node in walk(facts.source.module) if isinstance(node, (cst.FunctionDef, cst.Lambda)))
    inner = (node for function in functions if name not in own_names(function) for node in walk(function))
    return all(_reads(facts, node) for node in inner if isinstance(node, cst.Name) and node.value == name)


def _binds(facts: LoopFacts, node: cst.Name) -> bool:
    parent = facts.source.parent(node)
    return isinstance(parent, cst.AssignTarget) and isinstance(facts.source.parent(parent), cst.Assign)


def _reads(facts: LoopFacts, node: cst.Name) -> bool:
    parent = facts.source.parent(node)
    if isinstance(parent, cst.Arg):
        call = facts.source.parent(parent)
        return isinstance(call, cst.Call) and dotted(call.func) in ("float", "int", "bool")
    return _reads_at_once(facts, node) or isinstance(parent, cst.FormattedStringExpression)


def _reads_at_once(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """`loss.item()`, `loss.detach().cpu().item()`, `loss.detach().clone()`."""
    taken = facts.source.parent(node)
    if not isinstance(taken, cst.Attribute) or taken.value is not node:
        return False
    if taken.attr.value not in _HANDS_ON:
        return taken.attr.value in _READS or (taken.attr.value == "clone" and isinstance(node, cst.Call))
    around = facts.source.parent(taken)
    return _reads_at_once(facts, around if isinstance(around, cst.Call) else taken)


def _is_step(statement: cst.CSTNode) -> bool:
    """`loss.backward()`, `optimizer.step()`: a line that is one call of a training step."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    return isinstance(call, cst.Call) and (method_of(call) in _STEPS or dotted(call.func) in _STEPS)
