"""What has an `item()` and may be of the host: an array of NumPy, a list, a part of one.

In: a value that is read, and the facts of its loop. Out: yes or no. The parts of what a function of the project gives
are told by its text: `accuracy(output, y)[0]`, `loss, acc = model(x)`. Where nothing but torch is at work in it, what
has an `item()` is a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import dotted, last_name, root_key
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.deferral import value_types
from tracelens.patch.effects import syntax
from tracelens.patch.effects.scopes import imported
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.project_trees import definitions

_NO_ARRAYS = words("torch math typing collections itertools functools random time os __future__")
"""What gives no arrays of its own."""
_ARRAYS = words("np numpy __array__")
_OF_OBJECTS = ("forward", "__call__")
_CONSTANTS = words("finfo iinfo pi inf nan e")
"""`np.finfo(float).eps`: what a tensor is computed with stays a tensor."""
_Functions = Mapping[str, tuple[ast.FunctionDef, ...]]


def may_be_array(value: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether something with an `item()` is of the host: `loss = 0` above `loss += …` is not, numbers have none."""
    if not isinstance(value, cst.Name):
        return value_types.is_of_host(value, facts)
    known = value_types.values_of(value.value, facts)
    others = [one for one in known if one is not None and not isinstance(one, (cst.BaseNumber, cst.Name))]
    told = ((one, _parts_are_arrays(one, facts)) for one in others)
    return any(value_types.is_of_host(one, facts) if arrays is None else arrays for one, arrays in told)


def _parts_are_arrays(value: cst.BaseExpression, facts: LoopFacts) -> bool | None:
    """Of what is taken apart: whether more than torch is at work in the functions of the project that may give it. None
    where these are not known."""
    call = _taken_apart(value, facts)
    if call is None:
        return None
    root = root_key(call.func) or ""
    full = facts.names.imports.get(root, "")
    top = full.partition(".")[0]
    if top and facts.source.project.module(top, 0, facts.source.path) is None:
        return None  # a library's
    functions, name = _functions(facts.source), last_name(call.func)
    if name not in functions and not _is_object(call.func, facts):
        return None
    called = [one for one in ((name,) if name in functions else _OF_OBJECTS) if one in functions]
    return not all(_only_torch(facts.source, one) for one in called) if called else None


def _is_object(called: cst.BaseExpression, facts: LoopFacts) -> bool:
    """`model`, or `self.model` that the file stores: nothing that a library's class may have."""
    return isinstance(called, cst.Name) or (root_key(called) or "") in facts.names.attributes & {dotted(called)}


def _taken_apart(value: cst.BaseExpression, facts: LoopFacts) -> cst.Call | None:
    """The call in `accuracy(output, y)[0]`, and that of `loss, acc = model(x)`."""
    if isinstance(value, cst.Subscript):
        return value.value if isinstance(value.value, cst.Call) else None
    around = facts.source.parent(value)
    apart = isinstance(around, cst.Assign) and not any(isinstance(one.target, cst.Name) for one in around.targets)
    return value if apart and isinstance(value, cst.Call) else None


@lru_cache(maxsize=PARSED_FILES)
def _functions(source: SourceFile) -> _Functions:
    """Of what the files that run together define, by name the functions and methods."""
    found = {
        name: tuple(one for one in nodes if isinstance(one, ast.FunctionDef))
        for name, nodes in definitions(source).items()
    }
    return {name: functions for name, functions in found.items() if functions}


@lru_cache(maxsize=PARSED_FILES)
def _foreign(source: SourceFile) -> frozenset[str]:
    """Names under which some file has a library that may give arrays."""
    bound = (pair for tree in source.trees.values() for node in syntax.walk(tree) for pair in imported(node))
    project = source.project
    tops = ((name, full.partition(".")[0]) for name, full in bound if not full.startswith("."))
    found = (name for name, top in tops if top not in _NO_ARRAYS and project.module(top, 0, source.path) is None)
    return frozenset(found) | _ARRAYS


@lru_cache(maxsize=PARSED_FILES)
def _only_torch(source: SourceFile, name: str) -> bool:
    """Whether no function of that name, nor one that it calls, says anything of arrays or of another library."""
    functions, foreign = _functions(source), _foreign(source)
    known: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in known:
            continue
        known.add(one)
        for function in functions[one]:
            said = _said(function)
            if said & foreign:
                return False
            waiting += said & functions.keys()
    return True


def _said(function: ast.FunctionDef) -> frozenset[str]:
    """The names and attributes in a function, without those of constants."""
    nodes = list(syntax.walk(function))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    constants = {node.value for node in attributes if node.attr in _CONSTANTS}
    names = (node.id for node in nodes if isinstance(node, ast.Name) and node not in constants)
    return frozenset((*names, *(node.attr for node in attributes)))
