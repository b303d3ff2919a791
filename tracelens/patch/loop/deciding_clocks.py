"""Clocks that decide: a loop that ends, saves, prints or sets a rate by the time that has passed.

In: the facts of a loop. Out: nothing; raises `Blocked` where a value of the clock reaches a condition, or what trains.
A host that runs ahead comes there at another batch, so that nothing that waits may be taken out of such a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.clocks import CLOCKS, MOMENTS, TIMES_OF_DAY
from tracelens.patch.code.names import last_name, root_key, targets, variables, walk
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, own_nodes

_TOLD_BY = CLOCKS | MOMENTS | TIMES_OF_DAY
_TESTS = (cst.If, cst.While, cst.IfExp, cst.Assert)
_RATES = re.compile(r"lr|learning_rate|weight_decay|momentum")
_BY_HAND = say("count batches instead of seconds, or read the value every N batches by hand")


def check(facts: LoopFacts) -> None:
    """Raise `Blocked` where the time decides what the loop does, by the text of the file."""
    told = next(_deciding(facts), None)
    if told is not None:
        line = facts.source.line(told)
        raise Blocked(told, say("the clock decides in line {line} what the loop does", line=line), _BY_HAND)


def later(facts: LoopFacts) -> int | None:
    """The line of the loop's function, outside of the loop, in which a time of the loop decides something; None where
    none does."""
    timed, inside = _timed(facts), set(walk(facts.loop))
    tests = (node.test for node in own_nodes(facts.scope) if isinstance(node, _TESTS) and node not in inside)
    found = (test for test in tests if any(root_key(variable) in timed for variable in variables(test)))
    return next(map(facts.source.line, found), None)


def _deciding(facts: LoopFacts) -> Iterator[cst.CSTNode]:
    timed = _timed(facts)
    chosen = frozenset(_chosen_times(facts))
    for node in walk(facts.loop.body):
        if isinstance(node, _TESTS) and node not in chosen and _tells_time(facts, node.test, timed):
            yield node.test
        elif isinstance(node, (cst.Assign, cst.AugAssign)) and node.value is not None:
            rate = any(_is_rate(target) for target in targets(node))
            if rate and _tells_time(facts, node.value, timed):
                yield node
    if isinstance(facts.loop, cst.While) and _tells_time(facts, facts.loop.test, timed):
        yield facts.loop.test


def _chosen_times(facts: LoopFacts) -> Iterator[cst.CSTNode]:
    """Conditions that choose one of two values for a name: that tells the time then, as the condition did.

    `smooth = speed if smooth is None else 0.9 * smooth + 0.1 * speed`
    """
    for node in own_nodes(facts.scope):
        value = node.value if isinstance(node, cst.Assign) else None
        if isinstance(value, cst.IfExp) and all(map(_is_whole, targets(node))):
            called = any(isinstance(part, cst.Call) for side in (value.body, value.orelse) for part in walk(side))
            if not called:
                yield value


def _is_rate(target: cst.CSTNode) -> bool:
    """`group["lr"]`, `optimizer.lr`: what the training goes on with."""
    parts = (part for part in walk(target) if isinstance(part, (cst.Subscript, cst.Attribute)))
    texts = (cst.Module([]).code_for_node(part) for part in parts)
    return any(_RATES.search(text) for text in texts)


def _timed(facts: LoopFacts) -> frozenset[str]:
    """Names of the loop's function that hold a moment, or what is computed of one."""
    out: set[str] = set()
    bound = [node for node in own_nodes(facts.scope) if isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign))]
    grown = True
    while grown:
        known = len(out)
        for node in bound:
            if node.value is not None and _tells_time(facts, node.value, out):
                out |= {
                    name for target in targets(node) if (name := root_key(target)) is not None and _is_whole(target)
                }
        grown = len(out) > known
    return frozenset(out)


def _is_whole(target: cst.CSTNode) -> bool:
    """A name or an attribute, and no part of something that has other values, too."""
    return not any(isinstance(part, cst.Subscript) for part in walk(target))


def _tells_time(facts: LoopFacts, node: cst.CSTNode, timed: frozenset[str] | set[str]) -> bool:
    if any(root_key(variable) in timed for variable in variables(node)):
        return True
    calls = [part for part in walk(node) if isinstance(part, cst.Call)]
    functions = (one for call in calls for one in facts.names.functions.get(last_name(call.func), ()))
    return any(_asks_clock(facts, part) for part in (node, *(function.body for function in functions)))


def _asks_clock(facts: LoopFacts, node: cst.CSTNode) -> bool:
    calls = (part for part in walk(node) if isinstance(part, cst.Call))
    return any(facts.names.qualified(call.func) in _TOLD_BY for call in calls)
