"""The first line of a loop, which runs between the batches: what of the results it sees there, and when.

In: the facts of a loop, the statements that should run later and the keys of their results. Out: None, or for an
iterator that shows the results after which batches what waits has to run first: `Looks`, or a `Bar`. Raises `Blocked`.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import key, rebound, root_key, touched, variables, walk
from tracelens.patch.effects.words import words
from tracelens.patch.loop.bars import Bar, bar_of, runs_over
from tracelens.patch.loop.between import Looks, looks
from tracelens.patch.loop.facts import PURE_BUILTINS, LoopFacts
from tracelens.patch.loop.loops import Blocked

BAR_TEXTS = words("set_postfix set_postfix_str set_description set_description_str write display refresh desc postfix")
"""What is called on a progress bar that the loop runs over; it draws itself again whenever one of them is called."""


def check(facts: LoopFacts, members: Sequence[cst.CSTNode], state: frozenset[str]) -> Looks | Bar | None:
    """Raise `Blocked` where the line binds or reads what the statements change, in a way that cannot be foreseen."""
    loop = facts.loop
    if isinstance(loop, cst.While):
        _check_condition(facts, loop, state)
        return None
    bound = {key(v) for v in variables(loop.target)} & state
    if bound:
        obstacle = say(
            "`{bound}` is another object in each pass of the loop, and the statement changes it", bound=min(bound)
        )
        raise Blocked(loop, obstacle, say("keep the objects in a list, and fill them after the loop"))
    read = {key(v) for v in variables(loop.iter)} & state
    is_bar = not any(isinstance(node, cst.Attribute) and root_key(node) in read for node in walk(loop.iter))
    shown = {name for name in read if is_bar and _is_shown(facts, members, name)}
    passed = next((name for name in shown if not runs_over(facts, name)), None)
    if len(read - shown) + len(shown) > 1 or passed is not None:
        obstacle = say(
            "the loop runs over `{read}`, which can show the results between two batches", read=passed or min(read)
        )
        raise Blocked(
            loop.iter, obstacle, say("hand it the value every N batches, where N divides its printing interval")
        )
    if shown:
        return bar_of(facts, min(shown))
    return looks(facts, min(read)) if read else None


def _check_condition(facts: LoopFacts, loop: cst.While, state: frozenset[str]) -> None:
    """The condition moves into a function, from which a StopIteration would end the loop without a word."""
    if touched(loop.test, facts.names) & state:
        raise Blocked(loop.test, say("the value decides whether the loop goes on"), say("look at it every N batches"))
    for node in walk(loop.test):
        if isinstance(node, (cst.NamedExpr, cst.Await, cst.Yield)):
            raise Blocked(loop.test, say("the loop's condition binds a name"), say("bind it in the loop"))
        called = facts.names.qualified(node.func) if isinstance(node, cst.Call) else ""
        if isinstance(node, cst.Call) and called not in PURE_BUILTINS and not called.startswith("time."):
            obstacle = say(
                "the loop's condition calls `{called}(…)`, which may end it in another way",
                called=called or "something",
            )
            raise Blocked(node, obstacle, say("call it in the loop, and break"))


def _is_shown(facts: LoopFacts, members: Sequence[cst.CSTNode], name: str) -> bool:
    mentioned = any(name in touched(member, facts.names) for member in members)
    return mentioned and all(_only_shows(member, name) for member in members)


def _only_shows(member: cst.CSTNode, name: str) -> bool:
    """Whether a statement touches a progress bar in no other way than to set the text beside it."""
    for node in walk(member):
        if isinstance(node, cst.Attribute) and root_key(node) == name and node.attr.value not in BAR_TEXTS:
            return False
    return not isinstance(member, (cst.Assign, cst.AugAssign)) or name not in rebound(member)
