"""Clock reads around a synchronize: which differences of two of them can be measured by events on the GPU instead.

In: the facts of a loop. Out: `Timing`: the clock reads that become events, and the differences that are known when
the values are read. Raises `Blocked` where a time is used in another way, because then only the host's clock has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import last_name, method_of, rebound, variables, walk
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked, clock_reads, inner_functions, own_nodes
from tracelens.patch.loop.sites import statement_of

SECONDS = words("time.time time.perf_counter time.monotonic timeit.default_timer")
"""Clocks whose differences are seconds, as those of events will be."""
_BY_HAND = say("time every N batches as a whole, or with pairs of CUDA events")


@dataclass(frozen=True)
class Timing:
    """`starts` are calls of a clock that are assigned to a name; `spans` are subtractions of two times."""

    starts: tuple[cst.Call, ...]
    spans: tuple[cst.BinaryOperation, ...]


def time_measurements(facts: LoopFacts) -> Timing:
    """How the loop measures time; empty where it does not."""
    measured = next(_measured(facts, facts.loop.body), None)
    if measured is not None:
        raise Blocked(measured, say("the time between two CUDA events is asked for, when both must be over"), _BY_HAND)
    reads = clock_reads(facts.loop, facts.names)
    if not reads:
        return Timing((), ())
    for read in reads:
        if facts.names.qualified(read.func) not in SECONDS or read.args:
            raise Blocked(read, say("the loop reads a clock that does not count in seconds"), _BY_HAND)
    starts, names = _assigned(facts, reads)
    spans = tuple(_spans(facts, names))
    within = {id(part) for span in spans for part in (span.left, span.right)}
    for read in reads:
        if id(read) not in within and not any(read is start for start in starts):
            raise Blocked(
                read, say("the loop reads the clock, and the synchronize makes what it measures true"), _BY_HAND
            )
    _check_other_uses(facts, names, within)
    return Timing(starts, spans)


def check_events(facts: LoopFacts) -> None:
    """Raise `Blocked` where a read may be all that waits for the events whose time is asked for."""
    for measured in _measured(facts, facts.loop.body):
        if synchronize_before(facts, measured) is None:
            obstacle = say("the time between two CUDA events is asked for, and this read is what waits for them")
            raise Blocked(measured, obstacle, say("synchronize the later event before that, or ask every N batches"))


def _measured(facts: LoopFacts, node: cst.CSTNode) -> Iterator[cst.Call]:
    """Calls of `elapsed_time`, in a piece of code and in the functions of the file that it names."""
    named: set[str] = set()
    for part in walk(node):
        if isinstance(part, cst.Call):
            if method_of(part) == "elapsed_time":
                yield part
            named.add(last_name(part.func))
    if node is facts.loop.body:
        for name in sorted(named & set(facts.names.functions)):
            for function in facts.names.functions[name]:
                yield from _measured(facts, function.body)


def synchronize_before(facts: LoopFacts, call: cst.Call) -> cst.CSTNode | None:
    """The last synchronize that comes before a call for certain, in its block or in one around it."""
    current: cst.CSTNode = call
    for ancestor in facts.source.ancestors(call):
        found: cst.CSTNode | None = None
        for before in ancestor.body if isinstance(ancestor, cst.IndentedBlock) else ():
            if before is current:
                break
            simple = isinstance(before, cst.SimpleStatementLine)
            found = before if simple and any(method_of(part) == "synchronize" for part in walk(before)) else found
        if found is not None or ancestor is facts.loop or isinstance(ancestor, cst.FunctionDef):
            return found
        current = ancestor
    return None


def _assigned(facts: LoopFacts, reads: list[cst.Call]) -> tuple[tuple[cst.Call, ...], frozenset[str]]:
    """`start = time.time()` in the loop: the calls, and the names."""
    starts, names = [], set()
    for read in reads:
        statement = statement_of(facts.source, read)
        if isinstance(statement, cst.Assign) and statement.value is read and len(statement.targets) == 1:
            target = statement.targets[0].target
            if isinstance(target, cst.Name):
                starts.append(read)
                names.add(target.value)
    for leaf in facts.leaves:
        other = rebound(leaf) & names
        if other and not (isinstance(leaf, cst.Assign) and any(leaf.value is start for start in starts)):
            raise Blocked(leaf, say("`{other}` is a time, and something else as well", other=min(other)), _BY_HAND)
    return tuple(starts), frozenset(names)


def _spans(facts: LoopFacts, names: frozenset[str]) -> Iterator[cst.BinaryOperation]:
    """`stop - start` and `time.time() - start`, with a start that was taken in the loop."""
    for node in walk(facts.loop.body):
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Subtract):
            continue
        if _is_time(facts, node.left, names) and isinstance(node.right, cst.Name) and node.right.value in names:
            yield node


def _is_time(facts: LoopFacts, node: cst.BaseExpression, names: frozenset[str]) -> bool:
    if isinstance(node, cst.Name):
        return node.value in names
    return isinstance(node, cst.Call) and facts.names.qualified(node.func) in SECONDS


def _check_other_uses(facts: LoopFacts, names: frozenset[str], within: set[int]) -> None:
    bound = {id(t.target) for n in own_nodes(facts.scope) if isinstance(n, cst.Assign) for t in n.targets}
    for node in own_nodes(facts.scope):
        if isinstance(node, cst.Name) and node.value in names and id(node) not in within | bound:
            parent = facts.source.parent(node)
            label = isinstance(parent, (cst.Attribute, cst.Arg)) and getattr(parent, "value", None) is not node
            if not label:
                raise Blocked(
                    node, say("the time in `{name}` is used in another way than to measure", name=node.value), _BY_HAND
                )
    for inner in inner_functions(facts.scope):
        if any(isinstance(v, cst.Name) and v.value in names for v in variables(inner)):
            raise Blocked(inner, say("a function defined here uses a time of the loop"), _BY_HAND)
