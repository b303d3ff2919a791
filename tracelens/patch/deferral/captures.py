"""Values that are kept for statements that run later: each under a name, and each no more often than it takes.

In: the expression that a statement needs, and what is kept already. Out: a `Capture` more, or a place more in one of
them; raises `Blocked` where the value must not be taken out of its place. Two places share a capture only where the
expression has the same value in both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, rebound, variables, walk
from tracelens.patch.code.naming import name_for, unused_name
from tracelens.patch.deferral import value_types
from tracelens.patch.effects.vocabulary import shares_memory
from tracelens.patch.loop import host
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, Suspected
from tracelens.patch.loop.mentions import SAME

_RATE = re.compile(r"""(\[["']lr["']\]|get_(last_)?lr\(\)\[0\])$""")
_RATE_IS_TENSOR = re.compile(r"\blr[\"']?\s*[]=:)]+\s*torch\.")
_OBJECTS = frozenset({"", "choice", "comprehension", "elapsed"})
"""Kinds of captures that are no read of one tensor."""
_EACH_ITS_OWN = frozenset({"comprehension", "tolist", "numpy"})
"""Kinds of captures that make an object which can be changed: each place has another one."""


@dataclass(frozen=True)
class Capture:
    """One value that is kept. `nodes` are replaced by `name` in the statements; none for a name that stays."""

    name: str
    text: str
    read: str
    """The kind of read, or "" for a host value."""
    nodes: tuple[cst.CSTNode, ...]
    value: cst.BaseExpression
    """What is kept: the tensor that is read, or the expression itself."""
    loud: bool = False
    """To evaluate it may change what other captures see: none of those before it serves for a place after it."""
    moment: int = 0
    """How many loud captures come before it."""
    at: cst.CSTNode | None = None
    """The statement in whose place the value is taken, under the name `early`; None: where it starts to wait."""
    early: str = ""
    likely: bool = False
    """It is taken behind a training step that stands below its statement, which may be in its memory."""


@dataclass(frozen=True)
class CaptureRequest:
    """An expression that a statement needs. `tensor` is what is read, where it is not the expression itself."""

    node: cst.BaseExpression
    read: str
    tensor: cst.BaseExpression | None
    stores: bool
    """The statement keeps objects: one that the loop goes on to change must not become a copy."""
    definite: frozenset[str] | None
    """In a branch that may not be taken: the names that are bound all the same; None outside of branches."""


def keep(known: dict[str, Capture], facts: LoopFacts, wanted: CaptureRequest) -> None:
    """Add a value to `known`, or a place to one that is kept already."""
    node, read = wanted.node, wanted.read
    stays = isinstance(node, cst.Name) and wanted.tensor is None
    source = wanted.tensor if wanted.tensor is not None else node
    text = facts.source.code(source)
    name = node.value if stays and isinstance(node, cst.Name) else name_for(source, read)
    itself = read in _OBJECTS  # of a tensor that is read its numbers are kept, whatever becomes of it
    changed = itself and ((stays and name in facts.mutated) or text in facts.changed_parts)
    if wanted.stores and (changed or (itself and wanted.tensor is None and _is_added_to(node, text, facts))):
        obstacle = say("it keeps `{text}` itself, which the loop changes", text=text)
        raise Blocked(node, obstacle, say("keep a copy of it, or do this every N batches"))
    if itself and _is_asked_for(node, facts) and not value_types.is_number(node, facts):
        obstacle = say("it asks whether `{text}` is the very object, and a copy of it waits", text=text)
        raise Blocked(node, obstacle, say("ask before the line, or do this every N batches"))
    if wanted.stores and itself and _may_count(node, facts):
        by_hand = say("keep a copy of it, or do this every N batches")
        doubt(facts, Suspected(node, say("it keeps `{text}`, which is taken for a number", text=text), by_hand))
    if wanted.stores and wanted.tensor is None and _is_live(node, facts):
        by_hand = say("keep a copy of it, or do this every N batches")
        doubt(
            facts,
            Suspected(node, say("it keeps `{text}`, which may be a tensor that training changes", text=text), by_hand),
        )
    moment = sum(capture.loud for capture in known.values())
    for taken, other in known.items():
        same = (other.text, other.read) == (text, read) and read not in _EACH_ITS_OWN
        if same or (stays and taken == name):
            if host.repeats(source, facts) and (other.moment == moment or host.is_counter(source, facts)):
                kind = read if other.read == read else ""  # used in two ways: kept as it is
                known[taken] = replace(other, read=kind, nodes=(*other.nodes, *(() if stays else (node,))))
                return
            stays = stays and taken != name
    if wanted.definite is not None:
        _check_branch(facts, wanted, wanted.definite)
    loud = host.is_loud(source, facts)
    chosen = name if stays else unused_name(name, facts.taken, known)
    known[chosen] = Capture(chosen, text, read, () if stays else (node,), source, loud, moment + loud)


def _is_asked_for(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """`x is first`, `id(x)`; not `x is None`."""
    parent = facts.source.parent(node)
    around = facts.source.parent(parent) if isinstance(parent, (cst.Arg, cst.ComparisonTarget)) else parent
    if isinstance(around, cst.Call):
        return dotted(around.func) == "id"
    if not isinstance(around, cst.Comparison) or not any(isinstance(one.operator, SAME) for one in around.comparisons):
        return False
    others = (one for one in (around.left, *(part.comparator for part in around.comparisons)) if one is not node)
    return not all(isinstance(one, cst.Name) and one.value in ("None", "True", "False") for one in others)


def _is_live(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value may share memory with a tensor that lasts, or hold one: `model.bias.detach()`, `inputs[0]`."""
    if value_types.is_number(node, facts):
        return False
    filled = facts.reached is not None and facts.reached.may_change(facts.source.place(node))
    if filled or (is_rate(node, facts) and _RATE_IS_TENSOR.search(facts.source.project_text)):
        return True
    if _may_hold_tensors(node, facts):
        return True
    inner = node.func if isinstance(node, cst.Call) else node
    if isinstance(inner, cst.Attribute):
        return shares_memory(inner.attr.value)
    return isinstance(node, cst.Subscript) and value_types.is_tensor(node.value, facts)


def _may_hold_tensors(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value may be a list or dict of tensors: when it is kept it is copied, and the tensors in it too."""
    if facts.reached is None or is_rate(node, facts) or value_types.is_tensor(node, facts):
        return False
    return facts.reached.may_hold_tensors(facts.source.place(node))


def is_rate(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is a learning rate, which is a number unless the optimizer is told to keep it in a tensor."""
    return bool(_RATE.search(facts.source.code(node)))


def counts(name: str, facts: LoopFacts) -> bool:
    """Whether the loop gives a name no value but by `step += 1`: a number, unless it began as something else."""
    bound = [leaf for leaf in facts.leaves if name in rebound(leaf)]
    added = [leaf for leaf in bound if isinstance(leaf, cst.AugAssign) and isinstance(leaf.operator, cst.AddAssign)]
    return bool(bound) and len(added) == len(bound) and all(isinstance(leaf.value, cst.Integer) for leaf in added)


def _may_count(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a name counts like a number, and nobody knows what it began with."""
    counting = isinstance(node, cst.Name) and counts(node.value, facts)
    return counting and not value_types.is_number(node, facts)


def _is_added_to(node: cst.BaseExpression, text: str, facts: LoopFacts) -> bool:
    """Whether the loop has `counts += …` of what may be a tensor, which is the same object afterwards."""
    if not isinstance(node, (cst.Name, cst.Attribute)) or value_types.is_number(node, facts):
        return False
    if isinstance(node, cst.Name) and counts(node.value, facts):
        return False  # a doubt: `step += 1` of what is loaded from somewhere
    sums = (leaf for leaf in facts.leaves if isinstance(leaf, cst.AugAssign))
    added = [leaf for leaf in sums if facts.source.code(leaf.target) == text]
    own = isinstance(node, cst.Name)
    return any(own or not value_types.is_number(leaf.value, facts) for leaf in added)


def replaces(known: dict[str, Capture], node: cst.CSTNode) -> bool:
    """Whether a name takes the place of some part of an expression."""
    parts = {id(part) for part in walk(node)}
    return any(id(one) in parts for capture in known.values() for one in capture.nodes)


def _check_branch(facts: LoopFacts, wanted: CaptureRequest, definite: frozenset[str]) -> None:
    needs = {v.value for v in variables(wanted.node) if isinstance(v, cst.Name)} & facts.varying
    if wanted.read or not isinstance(wanted.node, cst.Name) or not needs <= definite:
        obstacle = say("the value is read only where a result decides it")
        raise Blocked(wanted.node, obstacle, say("read the value every N batches"))
