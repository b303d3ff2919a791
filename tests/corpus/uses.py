"""What a training loop does with the values that it reads from the GPU: log them, or something else.

In: a parsed file and its batches. Out: one `Use` per read. Written apart from the patcher and from another library,
so that "of the reads that only log, how many were deferred" is not the patcher's own opinion of itself.

A read is `logging` when its value ends in a sum, a meter, a list, a file or a printed line and nowhere else in the
loop: names that it is assigned to are followed. `control`: an `if`, `while` or `assert` looks at it. `training`: it
reaches an optimizer, scheduler, sampler or agent. `returned`: it leaves a step function. `seldom`: it stands below
`if step % n` or `if len(waiting) == n`, so it is made in few batches. `other`: anything else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tracelens.patch.code.batches import Batches, own

Purpose = Literal["logging", "seldom", "control", "training", "returned", "other"]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READS = words("item tolist")
_SINKS = words(
    "print write writerow info debug warning log log_metrics log_dict append extend update add add_scalar add_scalars"
    " set_postfix set_postfix_str set_description set_description_str put record report_scalar log_scalar progress_bar"
    " pprint line plot insert write_message log_value scalar_summary accumulate observe track add_value"
)
_TRAINERS = re.compile(r"optim|sched|sampler|scaler|agent|policy|(^|\.)env", re.IGNORECASE)
_PURE = words(
    "round float int str len min max abs sum mean format join sqrt exp log log10 pow array asarray isnan items zip"
    " range enumerate sorted list tuple dict tqdm"
)


@dataclass(frozen=True)
class Use:
    line: int
    purpose: Purpose


def uses(found: Batches) -> list[Use]:
    """All reads that run once per batch, each counted once."""
    out: dict[tuple[int, int, int], Use] = {}
    for part in (*found.loops, *found.functions):
        body = _Body(part)
        for read in body.reads():
            place = (read.lineno, read.col_offset, read.end_col_offset or 0)
            out.setdefault(place, Use(read.lineno, body.purpose(read)))
    return list(out.values())


class _Body:
    """One loop or step function, with the parent of each node."""

    def __init__(self, part: ast.AST) -> None:
        self._nodes = list(own(part, through_loops=True))
        self._parents: Mapping[ast.AST, ast.AST] = {
            child: node for node in (part, *self._nodes) for child in ast.iter_child_nodes(node)
        }
        self._backed = {
            node.func.value.id
            for node in self._nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "backward"
            and isinstance(node.func.value, ast.Name)
        }

    def reads(self) -> Iterator[ast.Call]:
        for node in self._nodes:
            if isinstance(node, ast.Call) and self._is_read(node):
                yield node

    def purpose(self, node: ast.AST) -> Purpose:
        return "seldom" if self._is_guarded(node) else self._follow(node, set())

    def _is_guarded(self, node: ast.AST) -> bool:
        current: ast.AST | None = node
        while current is not None:
            parent = self._parents.get(current)
            if isinstance(parent, ast.If) and current in parent.body and _has_modulo(parent.test):
                return True
            current = parent
        return False

    def _is_read(self, node: ast.Call) -> bool:
        if isinstance(node.func, ast.Name):
            arguments = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
            return node.func.id == "float" and len(arguments) == 1 and arguments[0] in self._backed
        if not isinstance(node.func, ast.Attribute) or node.args:
            return False
        if node.func.attr == "numpy":
            return "cpu" in {part.attr for part in ast.walk(node.func.value) if isinstance(part, ast.Attribute)}
        return node.func.attr in _READS

    def _follow(self, node: ast.AST, seen: set[str]) -> Purpose:
        """Upwards from a value to the statement that consumes it, then on with the names that it binds."""
        current = node
        while not isinstance(current, ast.stmt):
            parent = self._parents.get(current)
            if parent is None:
                return "other"
            if isinstance(parent, ast.IfExp) and parent.test is current:
                return "control"
            if isinstance(parent, ast.Call) and current is not parent.func:
                verdict = self._handed_to(parent)
                if verdict is not None:
                    return verdict
            current = parent
        return self._statement(current, seen)

    def _handed_to(self, call: ast.Call) -> Purpose | None:
        """What becomes of an argument; None where the call only computes with it."""
        name = ast.unparse(call.func)
        last = name.rpartition(".")[2]
        if _TRAINERS.search(name):
            return "training"
        if last in _SINKS and isinstance(self._parents.get(call), ast.Expr):
            return "logging"
        return None if last in _PURE else "other"

    def _statement(self, statement: ast.stmt, seen: set[str]) -> Purpose:
        if isinstance(statement, (ast.If, ast.While, ast.Assert)):
            return "control"
        if isinstance(statement, ast.Return):
            return "returned"
        if isinstance(statement, ast.Assign):
            return self._targets(statement.targets, statement, seen)
        if isinstance(statement, (ast.AugAssign, ast.AnnAssign)):
            return self._targets([statement.target], statement, seen)
        return "other"

    def _targets(self, targets: list[ast.expr], statement: ast.stmt, seen: set[str]) -> Purpose:
        names = {ast.unparse(_root(part)) for target in targets for part in _flat(target)}
        if any(_TRAINERS.search(name) for name in names):
            return "training"
        for name in names - seen:
            seen.add(name)
            for node in self._nodes:
                if self._loads(node, name) and self._statement_of(node) is not statement:
                    verdict = self._follow(node, seen)
                    if verdict not in ("logging", "returned"):
                        return verdict
        return "logging"

    def _statement_of(self, node: ast.AST) -> ast.AST | None:
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self._parents.get(current)
        return current

    def _loads(self, node: ast.AST, name: str) -> bool:
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return False
        return ast.unparse(node) == name and not self._is_receiver(node)

    def _is_receiver(self, node: ast.AST) -> bool:
        """`losses` of `losses.append(…)`: the value goes in there, it does not come out."""
        parent = self._parents.get(node)
        call = self._parents.get(parent) if isinstance(parent, ast.Attribute) else None
        return isinstance(call, ast.Call) and call.func is parent and isinstance(self._parents.get(call), ast.Expr)


def _has_modulo(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) and ast.unparse(test.left).startswith("len("):
        return True
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _flat(element)
    else:
        yield target


def _root(target: ast.expr) -> ast.expr:
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    return target
