"""What stands around statements that run later: the function of the loop, and the `with` blocks within the loop.

In: the facts of a loop. Out: nothing, a condition or a reason; raises `Blocked`, or notes a doubt.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, rebound, walk, written
from tracelens.patch.effects.words import words
from tracelens.patch.loop import stream_order
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import OF_A_HEAD, Blocked, Suspected, is_rare, scope_obstacles

_RUNS_TEXT = words("eval exec")
"""What they look at is in a text; `locals()` has every name, also one that a patch makes."""
_PLAIN_CONTEXTS = words(
    "no_grad autocast enable_grad set_grad_enabled inference_mode nullcontext record_function amp no_sync accumulate"
)
_HOLDING_CONTEXTS = words("open redirect_stdout redirect_stderr suppress catch_warnings ZipFile lock Lock RLock raises")
"""What runs after such a block does something else than within it."""


def check_frame(facts: LoopFacts) -> None:
    """Raise `Blocked`, or doubt, where code that cannot be followed may see the names of the loop's function."""
    inside = set(walk(facts.loop))
    for blocked in scope_obstacles(facts.scope):
        node = blocked.node
        if not isinstance(node, cst.Call) or node in inside or dotted(node.func) not in _RUNS_TEXT:
            raise Blocked(blocked.node, blocked.obstacle, blocked.by_hand)
        doubt(facts, blocked.suspected())  # nothing waits before the loop and after it


def check_context(node: cst.With, facts: LoopFacts) -> None:
    """Raise `Blocked` or doubt where a context may change something for statements that run after it.

    Gradients off, autocast, a profiler's label do not. A stream of the loop's own does not either: what is read there
    is kept there.
    """
    for item in node.items:
        if stream_order.enters_stream(facts, item.item):
            continue
        call = item.item.func if isinstance(item.item, cst.Call) else item.item
        last = call.attr.value if isinstance(call, cst.Attribute) else getattr(call, "value", "")
        name = last if isinstance(last, str) else ""
        if item.asname is None and any(word in name for word in _PLAIN_CONTEXTS):
            continue
        blocked = Blocked(node, say("the value is used inside a `with`"), say("read it after the block"))
        if item.asname is not None or node.asynchronous is not None or name in _HOLDING_CONTEXTS:
            raise blocked
        doubt(
            facts,
            Suspected(
                node, say("what `with {code}` changes is not known", code=facts.source.code(item.item)), blocked.by_hand
            ),
        )


def constant_condition(facts: LoopFacts, node: cst.CSTNode | None) -> cst.If | None:
    """The condition by which a statement is met in each batch or in none, as it has one value while the loop runs:
    `if args.log_norm:`. Its name alone makes it one of few batches."""
    below = node
    for ancestor in facts.source.ancestors(node) if node is not None else ():
        if isinstance(ancestor, cst.If) and below is ancestor.body and is_rare(ancestor.test, facts.varying):
            return None if facts.varies(ancestor.test) else ancestor
        below = ancestor
    return None


def why_block_stays(facts: LoopFacts, node: cst.For | cst.With, members: Collection[cst.CSTNode]) -> tuple[str, str]:
    """Why a block cannot wait whose head has to do with the results: it looks at them, or its rounds hand them out."""
    inside = [one for one in walk(node.body) if one in members and isinstance(one, cst.BaseSmallStatement)]
    changed = {name for one in inside for name in written(one, facts.names)} - {
        n for one in inside for n in rebound(one)
    }
    if isinstance(node, cst.For) and (filled := sorted(changed & rebound(node))):
        told = say("each round of the block fills another `{name}`", name=filled[0])
        return told, say("write a statement for each of them, or read the values every N batches")
    return OF_A_HEAD
