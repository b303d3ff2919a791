"""What must not run later because it looks at a clock or meets other ranks: a meter of speed, a sum over all GPUs.

In: a part of a statement that should run later, and the facts of its loop. Raises `Blocked`. What the statement only
needs (`time.time() - start` as an argument) is evaluated where it stands, and is no matter of this.
"""

from __future__ import annotations

import re

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.clocks import MAY_LOOK, lasts, speaks_of_time, takes_time
from tracelens.patch.code.names import dotted
from tracelens.patch.effects.objects import CLOCK, COLLECTIVE
from tracelens.patch.loop.doubts import doubt, met_behind
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, Suspected

_BY_HAND = say("do this in the loop and hand the result over, or do it every N batches")


def check(node: cst.CSTNode, facts: LoopFacts) -> None:
    """Raise `Blocked` where a call, a property or an object's own text is bound to its moment.

    The time since a bar began (`bar.elapsed_td`) is that of the line that shows it, as of a bar that draws itself.
    """
    why = facts.alone(node).bound or (MAY_LOOK if _may_time(node, facts) else "")
    if why:
        blocked = Blocked(node, say("`{shown}` {why}", shown=_shown(node, facts), why=why), _BY_HAND)
        own = _shows_itself(node, facts) or (why == MAY_LOOK and isinstance(node, cst.Attribute))
        if not own and (why == MAY_LOOK or not isinstance(node, cst.Call)):
            raise blocked  # the text is asked about what is called
        if why == COLLECTIVE or not own:
            met_behind(facts, blocked)
            return
        shows = say(
            "{obstacle}, and times that it shows are those of several batches at once", obstacle=blocked.obstacle
        )
        doubt(facts, Suspected(node, blocked.obstacle if facts.doubts is None else shows, _BY_HAND))


def may_look(call: cst.Call, facts: LoopFacts) -> bool:
    """Whether a call reads a clock behind its name, or is of an object that may."""
    return facts.alone(call).bound == CLOCK or _may_time(call, facts)


def _shows_itself(node: cst.CSTNode, facts: LoopFacts) -> bool:
    """Whether a function is called as a statement of its own, such as a bar that shows how long a batch took."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and isinstance(facts.source.parent(node), cst.Expr)
    )


def _shown(node: cst.CSTNode, facts: LoopFacts) -> str:
    if isinstance(node, cst.Call):
        return f"{dotted(node.func) or facts.source.code(node.func)}(…)"
    return dotted(node) or say("a part of it")


def _may_time(node: cst.CSTNode, facts: LoopFacts) -> bool:
    """An object that nobody can look into: what it is called, or made of, tells whether there is a clock behind it."""
    called = node.func if isinstance(node, cst.Call) else node
    if not isinstance(called, cst.Attribute) or facts.alone(node).of_project:
        return False
    receiver, name = dotted(called.value), called.attr.value
    made = facts.not_known(receiver)
    if not made or not isinstance(node, cst.Call):
        return bool(made) and lasts(name)
    classes = any(speaks_of_time(word, of_class=True) for word in re.findall(r"\w+", made))
    return classes or takes_time(name) or speaks_of_time(receiver.rpartition(".")[2])
