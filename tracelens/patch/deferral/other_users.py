"""Who else uses the results of statements that run later: functions around the loop, what it calls, who gets `self`.

In: the facts of a loop, the statements, and the keys of their results. Out: nothing; raises `Blocked`. Only the text
of the loop's file is looked at; what the rest of the project does is asked of the effects.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import meets, touched, written
from tracelens.patch.code.outside import FILES, OUTPUT
from tracelens.patch.deferral.kept_parts import changed_later
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.sites import reads_in


def check(facts: LoopFacts, members: Iterable[cst.CSTNode], state: frozenset[str]) -> None:
    """Raise `Blocked` where the results are used by other code than the statements `members` that change them."""
    names = state - {OUTPUT, FILES}
    behind = {name for member in members for name in changed_later(facts, member)}
    used = facts.inner_use(names - behind.difference(*(written(member, facts.names) for member in members)))
    if used is not None:
        blocked = Blocked(
            used, say("a function defined here uses the results"), say("hand the results to it as arguments")
        )
        if not _is_made_behind(facts, used):
            raise blocked
        doubt(facts, blocked.suspected())
    for leaf in facts.leaves:
        if isinstance(leaf, (cst.FunctionDef, cst.ClassDef)) and meets(touched(leaf, facts.names), state):
            raise Blocked(
                leaf, say("a function defined in the loop uses the value"), say("read the value every N batches")
            )


def _is_made_behind(facts: LoopFacts, function: cst.CSTNode) -> bool:
    """Whether a function without a name is made below the loop, as one that is handed to an evaluation."""
    return isinstance(function, cst.Lambda) and facts.source.line(function) > facts.source.last_line(facts.loop)


def only_holds(facts: LoopFacts, members: Iterable[cst.CSTNode], state: frozenset[str], node: cst.CSTNode) -> str:
    """What to say of a statement that meets the results by an object alone; empty where a value itself goes into it."""
    met = touched(node, facts.names) & state
    own = {key for one in members if one is not node for key in written(one, facts.names)}
    if not met or met & own or any(True for _ in reads_in(node)):
        return ""
    return say("it uses `{name}`, which may hold what the value goes into", name=min(met))
