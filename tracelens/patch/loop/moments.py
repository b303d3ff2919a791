"""What must not run later because it looks at a clock or meets other ranks: a meter of speed, a sum over all GPUs.

In: a part of a statement that should run later, and the facts of its loop. Raises `Blocked`. What the statement only
needs (`time.time() - start` as an argument) is evaluated where it stands, and is no matter of this.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.clocks import MEETS
from tracelens.patch.code.names import dotted
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked

_BY_HAND = say("do this in the loop and hand the result over, or do it every N batches")


def check(node: cst.CSTNode, facts: LoopFacts) -> None:
    """Raise `Blocked` where a call, a property or an object's own text is bound to its moment."""
    clocked, shown, why = facts.source.clocked, dotted(node), ""
    if isinstance(node, cst.Call):
        receiver = _text(node.func.value) if isinstance(node.func, cst.Attribute) else ""
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else facts.names.qualified(node.func)
        shown = f"{dotted(node.func) or method}(…)"
        if method and not facts.names.is_library(receiver.partition(".")[0]):
            why = clocked.call(receiver, method)
    elif isinstance(node, cst.Attribute):
        why = clocked.text(_text(node)) or clocked.attribute(_text(node.value), node.attr.value)
    elif isinstance(node, cst.Name):
        why = clocked.text(node.value)
    if why:
        blocked = Blocked(node, say("`{shown}` {why}", shown=shown or say("a part of it"), why=why), _BY_HAND)
        if why == MEETS or not _shows_itself(node, facts):
            raise blocked
        shows = say(
            "{obstacle}, and times that it shows are those of several batches at once", obstacle=blocked.obstacle
        )
        doubt(facts, Blocked(node, blocked.obstacle if facts.doubts is None else shows, _BY_HAND))


def _shows_itself(node: cst.CSTNode, facts: LoopFacts) -> bool:
    """Whether a function is called as a statement of its own, such as a bar that shows how long a batch took."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and isinstance(facts.source.parent(node), cst.Expr)
    )


def _text(node: cst.CSTNode) -> str:
    """As `clocked` calls objects: `self.meters[]` for `self.meters["loss"]`."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, (cst.Attribute, cst.Subscript)):
        base = _text(node.value)
        return base + (f".{node.attr.value}" if isinstance(node, cst.Attribute) else "[]") if base != "?" else base
    return "?"
