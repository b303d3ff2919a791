"""Arrays that moved statements change in place: on the CPU such an array is the tensor's own memory.

In: the facts of a loop, and the nodes of all statements that move. Out: nothing, or an obstacle. `ahead.numpy(…)` gives
the statement an array of its own, as the GPU's copy is; where a script falls back to the CPU, `out -= out.max()`
changed the tensor, too, which later lines read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import root_key, targets
from tracelens.patch.effects.words import words
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Suspected
from tracelens.patch.loop.sites import reads_in

_IN_PLACE = words("fill sort partition put itemset resize byteswap setfield setflags")
"""Methods of an array that change it."""


def check(facts: LoopFacts, nodes: Collection[cst.CSTNode]) -> None:
    """Raise `Blocked`, or note a doubt, where the statements change an array that they read in place."""
    arrays = {name for node in nodes if isinstance(node, cst.Assign) for name in _arrays(node)}
    for node in nodes:
        changed = next((name for name in _changed(node) if name in arrays), None)
        if changed is not None:
            obstacle = say("it changes `{array}`, which is a tensor's own memory on the CPU", array=changed)
            doubt(facts, Suspected(node, obstacle, say("copy the array before it is changed")))


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
