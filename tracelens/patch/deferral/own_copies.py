"""How a value is kept as it is now. Tensors that were copied for their name already are kept as they are.

In: a value of a loop. Out: how it is kept; whether it is a copy without graph that nothing but reads uses.
"""

from __future__ import annotations

import re
from functools import partial

import libcst as cst

from tracelens.patch.code.names import last_name, method_of, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import own_nodes

_REDUCES = frozenset({"sum", "mean"})
"""Methods whose result is memory of its own, which nothing else changes."""


def kept(facts: LoopFacts, capture: Capture) -> str:
    """A value as it is now."""
    return kept_tensor(facts, capture.value) if capture.read else facts.source.code(capture.value)


def kept_tensor(facts: LoopFacts, value: cst.BaseExpression) -> str:
    """A tensor as it is now: a copy on its device, without its graph."""
    if isinstance(value, cst.Attribute) and value.attr.value == "data":
        value = value.value
    text = facts.source.code(value)
    if is_own_copy(value, facts):
        return text
    if isinstance(value, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)) and not value.lpar:
        text = f"({text})"
    reduces = method_of(value) in _REDUCES
    own = reduces and value_types.has_own_memory(value, facts)
    return f"{text}.detach()" if own else f"{text}.detach().clone()"


def is_own_copy(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a name stands for a copy without graph that was made for it, and that nothing but reads uses."""
    if not isinstance(node, cst.Name):
        return False
    values = list(value_types.values_of(node.value, facts))
    mentions = (one for one in walk(facts.loop) if isinstance(one, cst.Name) and one.value == node.value)
    parents = [facts.source.parent(one) for one in mentions]
    read = all(
        isinstance(one, cst.AssignTarget) or (isinstance(one, cst.Attribute) and one.attr.value == "item")
        for one in parents
    )
    return bool(values) and read and all(map(partial(_is_copy, facts), values))


def _is_copy(facts: LoopFacts, value: cst.BaseExpression | None) -> bool:
    return isinstance(value, cst.Call) and (_copies(value, facts) or _gives_copies(value, facts))


def _gives_copies(call: cst.Call, facts: LoopFacts) -> bool:
    """Whether a function of the file, and no other of the project by its name, returns such copies: a step function
    whose loss waits. What is compiled, wrapped or replaced may give the same memory in each call."""
    name = last_name(call.func)
    known = facts.names.functions.get(name, ())
    if len(known) != 1 or known[0].decorators or known[0].asynchronous is not None:
        return False
    returned = [part.value for part in own_nodes(known[0].body) if isinstance(part, cst.Return)]
    whole = all(isinstance(one, cst.Call) and _ends_in_copy(one) for one in returned)
    return bool(returned) and whole and _is_called_only(name, facts)


def _is_called_only(name: str, facts: LoopFacts) -> bool:
    """Whether the project defines the name once, and says it nowhere else but to call it."""
    project = facts.source.project
    try:
        texts = [project.changed.get(path) or path.read_text("utf-8", "replace") for path in project.paths]
    except OSError:
        return False
    said = [found for text in texts for found in re.findall(rf"(def +)?\b{re.escape(name)}\b(\(?)", text)]
    return project.complete and sum(bool(head) for head, _ in said) == 1 and all(call for _, call in said)


def _copies(call: cst.Call, facts: LoopFacts) -> bool:
    """`loss.detach().clone()`, or `output.mean().detach()`, whose memory nothing else has."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(owner, cst.Call) or not isinstance(owner.func, cst.Attribute):
        return False
    if cst.ensure_type(call.func, cst.Attribute).attr.value == "detach":
        return value_types.has_own_memory(owner, facts)
    return _ends_in_copy(call)


def _ends_in_copy(call: cst.Call) -> bool:
    """`loss.detach().clone()`."""
    return (
        method_of(call) == "clone" and isinstance(call.func, cst.Attribute) and method_of(call.func.value) == "detach"
    )
