"""Of a plan the statements that have to wait: those with a read, and those that share a result with one of them.

In: a `Deferral`. Out: one with fewer statements. A plan takes in whatever touches an object beside the results, such as
every meter of one display; where the display is preceded by a drain, a meter of its own may be updated at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from tracelens.patch.code.names import dotted, meets, root_key, touched, walk, written
from tracelens.patch.code.outside import BESIDES
from tracelens.patch.deferral import proof, value_types
from tracelens.patch.deferral.planning import Deferral, StatementRun
from tracelens.patch.deferral.statements import StatementCaptures
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.sites import reads_in


def only_waiting(deferral: Deferral) -> Deferral:
    """The plan without the statements that need not wait; the same plan where all of them do."""
    facts = deferral.facts
    statements = [statement for run in deferral.runs for statement in run.statements]
    rest = {node for node in statements if _may_stay(facts, node)}
    waiting = [node for node in statements if node not in rest]
    grown = True
    while grown:
        joining = [node for node in rest if any(_meet(facts, node, other) for other in waiting)]
        grown = bool(joining)
        rest -= set(joining)
        waiting += joining
    if not rest or deferral.state & BESIDES:  # where lines wait, anything may be printed between two of them
        return deferral
    try:
        runs = tuple(part for run in deferral.runs for part in _parts(deferral, run, rest))
        fewer = replace(deferral, runs=runs)
        return replace(fewer, unproved=proof.unproved(fewer))
    except Blocked:
        return deferral


def _may_stay(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether a statement has no read and changes one object that its loop's function made, by a method of it."""
    small = node.body[0] if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    if small is None or not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    receiver = call.func.value
    if not isinstance(receiver, cst.Name) or any(True for _ in _reads(facts, node)):
        return False
    changed = written(small, facts.names) | facts.behind(node).changed
    return changed <= {receiver.value} and _stands_alone(facts, receiver.value)


def _reads(facts: LoopFacts, node: cst.CSTNode) -> Sequence[object]:
    return [read for read in reads_in(node) if read.kind != "number" or not value_types.is_number(read.tensor, facts)]


def _stands_alone(facts: LoopFacts, name: str) -> bool:
    """Whether an object is made of settings only: it holds nothing that another statement could change."""
    values = list(value_types.values_of(name, facts))
    if not values or name in facts.varying:
        return False
    for value in values:
        if not isinstance(value, cst.Call) or not dotted(value.func):
            return False
        if any(not _is_setting(facts, argument.value) for argument in value.args):
            return False
    return True


def _is_setting(facts: LoopFacts, value: cst.BaseExpression) -> bool:
    """A constant: a number, a text, a member of an enumeration that is imported or defined in the file."""
    if isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name):
        return value.value.value in facts.names.classes or value.value.value in facts.names.imports
    return isinstance(value, (cst.BaseString, cst.BaseNumber))


def _meet(facts: LoopFacts, node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether the order of two statements can be seen by either."""
    own = {root for part in walk(node) if isinstance(part, cst.Call) and (root := root_key(part.func)) is not None}
    seen = frozenset(name for name in facts.behind(node).seen if "." not in name)  # its own attributes are its own
    ours, theirs = touched(node, facts.names) | seen, facts.touched(other)
    holders = facts.held_by(frozenset(theirs))
    output = bool(ours & BESIDES) and bool(theirs & BESIDES)
    changes = changed_by(facts, node) | {name for name in own if name in facts.changed_inside}
    return output or meets(holders, frozenset(changes)) or meets(ours, changed_by(facts, other))


def changed_by(facts: LoopFacts, node: cst.CSTNode) -> frozenset[str]:
    """All keys that the small statements of a statement change."""
    small = (part for part in walk(node) if isinstance(part, cst.BaseSmallStatement))
    return frozenset(name for part in small for name in written(part, facts.names)) | facts.behind(node).changed


def _parts(deferral: Deferral, run: StatementRun, rest: set[cst.CSTNode]) -> list[StatementRun]:
    """A run without some of its statements: each stretch that is left, with what it keeps."""
    if not any(statement in rest for statement in run.statements):
        return [run]
    out: list[StatementRun] = []
    together: list[cst.CSTNode] = []
    for statement in (*run.statements, None):
        if statement is not None and statement not in rest:
            together.append(statement)
        elif together:
            recorder = StatementCaptures(deferral.facts, deferral.state)
            for one in together:
                recorder.statement(one)
            out.append(StatementRun(tuple(together), tuple(recorder.captures.values())))
            together = []
    return out
