"""Arrays that somebody changes in place: on the CPU such an array is the tensor's own memory.

In: the facts of a loop, and the nodes of all statements that move. Out: nothing, or an obstacle. `ahead.numpy(…)` gives
the statement an array of its own, as the GPU's copy is; where a script falls back to the CPU, `out -= out.max()`
changed the tensor, too, which later lines read. A list of copies gives arrays of copies there as well: `stays` says
whether the script's own would have had other numbers later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import root_key, targets, walk
from tracelens.patch.deferral import value_types
from tracelens.patch.effects.words import words
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Suspected
from tracelens.patch.loop.sites import reads_in

_IN_PLACE = words("fill sort partition put itemset resize byteswap setfield setflags")
"""Methods of an array that change it."""
_SAME_MEMORY = words("detach data cpu float double squeeze")
"""What gives a tensor with the same memory, where nothing has to be copied."""
_GIVES_OTHERS = words("item tolist backward clone mean sum dtype shape device requires_grad dim ndim")
_KEEPS_NOTHING = words("isnan isinf isfinite scale float print backward")
"""Functions and methods that leave a tensor as it is, and of which nobody gets it."""


def check(facts: LoopFacts, nodes: Collection[cst.CSTNode]) -> None:
    """Raise `Blocked`, or note a doubt, where the statements change an array that they read in place."""
    arrays = {name for node in nodes if isinstance(node, cst.Assign) for name in _arrays(node)}
    for node in nodes:
        changed = next((name for name in _changed(node) if name in arrays), None)
        if changed is not None:
            obstacle = say("it changes `{array}`, which is a tensor's own memory on the CPU", array=changed)
            doubt(facts, Suspected(node, obstacle, say("copy the array before it is changed")))


def stays(facts: LoopFacts, tensor: cst.BaseExpression, arrays: Sequence[cst.CSTNode]) -> bool:
    """Whether arrays of a tensor keep their numbers: something is computed of them at once, or nobody changes it."""
    if all(_is_used_up(facts, one) for one in arrays):
        return True
    base = tensor
    while (owner := _of_same_memory(base)) is not None:
        base = owner
    if not isinstance(base, cst.Name):
        return value_types.has_own_memory(base, facts)
    given = list(value_types.values_of(base.value, facts))
    made = all(one is not None and value_types.has_own_memory(one, facts) for one in given)
    uses = (one for one in walk(facts.scope) if isinstance(one, cst.Name) and one.value == base.value)
    return bool(given) and made and all(_leaves(facts, one, arrays) for one in uses)


def _of_same_memory(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The tensor whose memory another has: of `loss` and `loss.detach()` the first."""
    called = isinstance(node, cst.Call)
    inner = node.func if isinstance(node, cst.Call) else node
    same = isinstance(inner, cst.Attribute) and inner.attr.value in _SAME_MEMORY
    return inner.value if isinstance(inner, cst.Attribute) and same and called != (inner.attr.value == "data") else None


def _leaves(facts: LoopFacts, node: cst.CSTNode, arrays: Sequence[cst.CSTNode]) -> bool:
    """Whether one use of a tensor neither changes it nor gives it, or another with its memory, to somebody else."""
    parent = facts.source.parent(node)
    if isinstance(parent, (cst.AssignTarget, cst.FormattedStringExpression)) or _is_used_up(facts, node):
        return True
    if isinstance(parent, cst.Arg):
        call = facts.source.parent(parent)
        func = call.func if isinstance(call, cst.Call) else None
        name = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
        return name in _KEEPS_NOTHING
    if not isinstance(parent, cst.Attribute) or parent.value is not node:
        return False
    above = facts.source.parent(parent)
    whole = above if isinstance(above, cst.Call) and above.func is parent else parent
    if any(whole is one for one in arrays) or parent.attr.value in _GIVES_OTHERS:
        return True
    return _of_same_memory(whole) is not None and _leaves(facts, whole, arrays)


def _is_used_up(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether only a result of a computation is kept, which has memory of its own."""
    parent = facts.source.parent(node)
    added = isinstance(parent, cst.AugAssign) and parent.value is node
    return added or isinstance(parent, (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget))


def _arrays(node: cst.Assign) -> Iterator[str]:
    """The names that are bound to a whole array that was read, or to a part of it."""
    value = node.value
    while isinstance(value, cst.Subscript):
        value = value.value
    if any(read.kind == "numpy" and read.node is value for read in reads_in(value)):
        yield from (target.value for target in targets(node) if isinstance(target, cst.Name))


def _changed(node: cst.CSTNode) -> Iterator[str]:
    """The names of what a node changes in place."""
    if isinstance(node, (cst.Assign, cst.AugAssign, cst.Del)):
        parts = [one for one in targets(node) if isinstance(one, cst.Subscript) or isinstance(node, cst.AugAssign)]
        yield from (name for part in parts if (name := root_key(part)) is not None)
    elif isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _IN_PLACE:
            yield from (name for name in (root_key(node.func.value),) if name is not None)
        given = [argument for argument in node.args if argument.keyword is not None]
        out = [argument.value for argument in given if argument.keyword and argument.keyword.value == "out"]
        yield from (name for value in out if (name := root_key(value)) is not None)
