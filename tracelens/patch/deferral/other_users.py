"""Who else uses the results of statements that run later: functions around the loop, what it calls, who gets `self`.

In: the facts of a loop, the statements, and the keys of their results. Out: nothing; raises `Blocked`. Only the text
of the loop's file is looked at; what the rest of the project does is asked of the effects.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, meets, touched, walk, written
from tracelens.patch.code.outside import FILES, OUTPUT
from tracelens.patch.deferral.kept_parts import changed_later
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, globals_of
from tracelens.patch.loop.reach import hidden_uses

_RECEIVES_SELF, _HAND_OVER = say("a call receives `self` and could see the results"), say("hand the results to it")


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
        doubt(facts, blocked)
    for leaf in facts.leaves:
        if isinstance(leaf, (cst.FunctionDef, cst.ClassDef)) and meets(touched(leaf, facts.names), state):
            raise Blocked(
                leaf, say("a function defined in the loop uses the value"), say("read the value every N batches")
            )
    for member in members:
        bare_self = any(
            isinstance(n, cst.Arg) and isinstance(n.value, cst.Name) and n.value.value == "self" for n in walk(member)
        )
        if bare_self:
            raise Blocked(member, _RECEIVES_SELF, _HAND_OVER)
    for function, seen in hidden_uses(facts.names, facts.loop):
        if meets(seen, state):
            obstacle = say("`{name}`, which is called without its name, uses the results", name=function.name.value)
            raise Blocked(function, obstacle, say("read the value every N batches"))
    shared = {name for name in names if name.startswith("self.")} | (names & globals_of(facts.scope))
    if shared:
        _check_called(facts, frozenset(shared))


def _is_made_behind(facts: LoopFacts, function: cst.CSTNode) -> bool:
    """Whether a function without a name is made below the loop, as one that is handed to an evaluation."""
    return isinstance(function, cst.Lambda) and facts.source.line(function) > facts.source.last_line(facts.loop)


def _check_called(facts: LoopFacts, names: frozenset[str]) -> None:
    """Results kept in attributes or globals must not be seen by what the loop calls, nor by code that gets `self`."""
    for node in walk(facts.loop.body):
        if isinstance(node, cst.Arg) and isinstance(node.value, cst.Name) and node.value.value == "self":
            raise Blocked(node, _RECEIVES_SELF, _HAND_OVER)
        if isinstance(node, cst.Call) and _sees(node, facts, names, set()):
            raise Blocked(
                node, say("`{call}()` uses the results", call=dotted(node.func)), say("call it every N batches")
            )


def _sees(call: cst.Call, facts: LoopFacts, names: frozenset[str], seen: set[str]) -> bool:
    """Whether a function of the file, or one that it calls in turn, touches one of the names."""
    owner, _, name = dotted(call.func).rpartition(".")
    if owner not in ("", "self", "cls") or name in seen:
        return False
    seen.add(name)
    for function in facts.names.functions.get(name, ()):
        if function is facts.scope:
            continue
        inner = (node for node in walk(function) if isinstance(node, cst.Call))
        if touched(function, facts.names) & names or any(_sees(one, facts, names, seen) for one in inner):
            return True
    return False
