"""Reads that are all of what a statement stores: their tensors are computed where the statement stands.

In: a statement of a loop. Out: the read, or the comprehension of reads, and what functions change when the statement
runs later. `total += train_step(x, y).item()` calls `train_step` in its batch, so only the sum is put off; what
`train_step` changes is no result that others would have to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import key, own_names, targets, variables
from tracelens.patch.code.source import PARSED_FILES
from tracelens.patch.deferral.comprehensions import Comprehension
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Scope, inner_functions
from tracelens.patch.loop.sites import read_of, reads_in


def kept_parts(facts: LoopFacts, statement: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """What of a statement must be evaluated where it stands; none where functions change nothing there."""
    parts = tuple(part for part in _values(facts, statement) if _is_read(part) and facts.behind(part).changed)
    others = [part for part in _values(facts, statement) if not any(part is kept for kept in parts)]
    return parts if not any(facts.behind(part).changed for part in others) else ()


def changed_later(facts: LoopFacts, statement: cst.CSTNode) -> frozenset[str]:
    """What the functions behind a statement change when it runs later."""
    parts = targets(statement) if kept_parts(facts, statement) else (statement,)
    changed = frozenset[str]().union(*(facts.behind(part).changed for part in parts))
    return changed - _out_of_reach(facts, statement, changed)


def _out_of_reach(facts: LoopFacts, statement: cst.CSTNode, changed: frozenset[str]) -> frozenset[str]:
    """Of what an analysis that hardly tells objects apart says, the variables of the loop's own function that nothing
    in the statement leads to: no other function has them, unless one is defined inside."""
    hardly_told = facts.reached is not None and facts.reached.is_coarse
    own = changed & _unshared(facts.scope)
    if not hardly_told or not own:
        return frozenset()
    read = {name for one in reads_in(statement) for name in variables(one.node)}  # a number is handed on, no tensor
    handed = frozenset(key(name) for name in variables(statement) if name not in read)
    return own - facts.held_by(handed)


@lru_cache(maxsize=PARSED_FILES)
def _unshared(scope: Scope) -> frozenset[str]:
    """Variables that a function alone has; none where one is defined inside it, or it is the file."""
    if not isinstance(scope, cst.FunctionDef) or any(True for _ in inner_functions(scope)):
        return frozenset()
    return frozenset(name for name in own_names(scope) if not name.startswith("self."))


def _values(facts: LoopFacts, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The value of an assignment; the arguments of a call of something that is not the project's."""
    if isinstance(statement, (cst.Assign, cst.AugAssign, cst.AnnAssign)) and statement.value is not None:
        yield statement.value
    elif isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        func = statement.value.func
        plain = isinstance(func, cst.Name) or (isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name))
        if plain and not facts.alone(statement.value).of_project:
            yield from (argument.value for argument in statement.value.args)


def _is_read(node: cst.BaseExpression) -> bool:
    if isinstance(node, Comprehension):
        return any(True for _ in reads_in(node))
    found = read_of(node)
    return found is not None and found.node is node
