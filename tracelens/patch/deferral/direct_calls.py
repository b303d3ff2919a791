"""Statements that only call a method: the method itself waits then, and no function is written around it.

In: a run of statements. Out: for each of them what is called and its arguments, or nothing where a function has to be
written: `losses.update(loss.item(), n)` becomes `ahead.defer(losses.update, ahead.item(loss), n)`. The method is looked
up where the statement stood, as before; what it is looked up on must be what its name means when the statement runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code.names import WHOLE_SELF, key, targets
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.deferral.planning import StatementRun
from tracelens.patch.loop.facts import LoopFacts


@dataclass(frozen=True)
class DirectCall:
    """`called` is text; an argument is a value that is kept, or the text of a constant."""

    statement: cst.BaseSmallStatement
    called: str
    arguments: tuple[Capture | str, ...]


def direct_calls(facts: LoopFacts, run: StatementRun) -> tuple[DirectCall, ...]:
    """The calls that the run consists of; none where it is anything else."""
    if any(len(capture.nodes) > 1 for capture in run.captures):
        return ()  # a value that two of them use is read once
    calls = [_direct(facts, statement, run.captures) for statement in run.statements]
    known = [call for call in calls if call is not None]
    return tuple(known) if len(known) == len(calls) else ()


def _direct(facts: LoopFacts, statement: cst.CSTNode, captures: Sequence[Capture]) -> DirectCall | None:
    if not isinstance(statement, cst.SimpleStatementLine):
        return None
    small = statement.body[0]
    call = small.value if isinstance(small, cst.Expr) and len(statement.body) == 1 else None
    if not isinstance(call, cst.Call) or has_comments(call) or not _means_the_same(facts, call.func):
        return None
    if facts.reached is None or facts.reached.may_name_caller(facts.source.place(call)):
        return None  # a line of the log says which file it is from: that of the script, as long as its function calls
    arguments = [_argument(one, captures) for one in call.args]
    known = tuple(one for one in arguments if one is not None)
    return DirectCall(small, facts.source.code(call.func), known) if len(known) == len(arguments) else None


def _means_the_same(facts: LoopFacts, called: cst.BaseExpression) -> bool:
    """Whether the text is a method of an object that no statement of the loop gives another name to."""
    if not isinstance(called, cst.Attribute):
        return False
    owner = called.value
    if isinstance(owner, cst.Name):
        return owner.value not in facts.varying | WHOLE_SELF
    own = isinstance(owner, cst.Attribute) and isinstance(owner.value, cst.Name) and owner.value.value in WHOLE_SELF
    stored = (target for leaf in facts.leaves for target in targets(leaf) if isinstance(target, cst.Attribute))
    return own and isinstance(owner, cst.Attribute) and key(owner) not in {key(target) for target in stored}


def has_comments(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Comment) or any(has_comments(child) for child in node.children)


def _argument(given: cst.Arg, captures: Sequence[Capture]) -> Capture | str | None:
    value = given.value
    if given.keyword is not None or given.star:
        return None
    if isinstance(value, (cst.SimpleString, cst.Integer, cst.Float)):
        return value.value
    name = value.value if isinstance(value, cst.Name) else ""
    return next((one for one in captures if value in one.nodes or (not one.nodes and one.name == name)), None)
