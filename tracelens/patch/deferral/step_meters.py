"""Meters of the project whose method is named `step`, as that of an optimizer is: `losses.step(loss.item(), len(x))`.

In: a call in a loop. Out: whether its object is made by a class of the project that takes numbers in and does nothing
else. That the object shares nothing with the training is asked of the effects, as of every meter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from tracelens.patch.deferral import value_types
from tracelens.patch.effects import syntax
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts

_COMPUTES = words("len float int round abs max min sum append")
_LOOKS = words("__getattribute__ __getattr__ __setattr__ __new__")
_DOES = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.Pass)


def is_meter(call: cst.Call, facts: LoopFacts) -> bool:
    """Whether a call is that of a meter: all that its name stands for is made so, and no class is made of another."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "step" or not isinstance(func.value, cst.Name):
        return False
    values = list(value_types.values_of(func.value.value, facts))
    return bool(values) and all(isinstance(one, cst.Call) and _makes_meter(one, facts) for one in values)


def _makes_meter(made: cst.Call, facts: LoopFacts) -> bool:
    full = facts.names.qualified(made.func)
    module, _, name = full.rpartition(".")
    found = list(_classes(facts, name))
    if len(found) != 1 or (module and module.rpartition(".")[2] not in (found[0][0].stem, found[0][0].parent.name)):
        return False
    made_of = found[0][1]
    steps = [one for one in made_of.body if isinstance(one, ast.FunctionDef) and one.name == "step"]
    whole = [*made_of.bases, *made_of.keywords, *made_of.decorator_list]
    plain = all(isinstance(one, ast.Name) and one.id == "object" for one in whole)
    return (
        plain
        and not any(map(_hides, made_of.body))
        and len(steps) == 1
        and not steps[0].decorator_list
        and _only_counts(steps[0])
    )


def _hides(part: ast.stmt) -> bool:
    """Whether a part of a class makes a store into its object something else."""
    if isinstance(part, ast.FunctionDef):
        return part.name in _LOOKS or any(isinstance(one, ast.Attribute) for one in part.decorator_list)
    return any(isinstance(one, ast.Call) for one in syntax.walk(part))


def _classes(facts: LoopFacts, name: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in facts.source.trees.items():
        for node in syntax.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name == name:
                yield path, node


def _only_counts(function: ast.FunctionDef) -> bool:
    """Whether a method only stores numbers in its own object: nothing is called of what it is given."""
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.stmt) and not isinstance(node, _DOES):
            return False
        if isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if named not in _COMPUTES:
                return False
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self" and node.attr != "append":
            return False
        if isinstance(node, (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
    return True
