"""What a value of a loop certainly is: a tensor, a tensor without dimensions, a number.

In: an expression and the facts of its loop. Out: yes, or not known: the effects of the project are asked, which know
all bindings of its names, and what it calls. The runtime looks at each value while the script runs; lines of plain
PyTorch cannot, so that only values whose kind is proved may wait in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from tracelens.patch.code import formats
from tracelens.patch.code.names import KEPT_WALKS, dotted, parameters, rebound, walk
from tracelens.patch.effects.kind import ARRAY, AT_TIMES, NUMBER, TENSOR
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import own_nodes

_OF_HOST = (ARRAY, AT_TIMES[ARRAY])
_BINDING = (
    *(cst.Assign, cst.AugAssign, cst.AnnAssign, cst.For, cst.With, cst.Import, cst.ImportFrom, cst.Del),
    *(cst.NamedExpr, cst.ExceptHandler),
)


def is_tensor(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is a tensor for certain."""
    return facts.kind(node).what == TENSOR


def stacks(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a stack of several such tensors is one list of their numbers: without dimensions, and of one type."""
    kind = facts.kind(node)
    return kind.what == TENSOR and kind.single and bool(kind.type)


def has_no_dimensions(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a tensor has no dimensions for certain."""
    kind = facts.kind(node)
    return kind.what == TENSOR and kind.single


def is_real(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a tensor is not complex for certain: a loss, or what is counted of comparisons."""
    kind = facts.kind(node)
    return kind.what == TENSOR and bool(kind.type)


def is_number(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is a number or a text of Python for certain, which nobody can change afterwards."""
    return formats.makes_text(node) or facts.kind(node).what == NUMBER


def has_own_memory(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether nothing else changes a tensor, so that it needs no copy."""
    kind = facts.kind(node)
    return kind.what == TENSOR and kind.own


def went_back(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a name stands for what has just computed its gradients, whatever other lines make of the name: a line
    `loss.backward()` above, in the same pass, and no other value since."""
    if not isinstance(node, cst.Name):
        return False
    below: cst.CSTNode = node
    for ancestor in facts.source.ancestors(node):
        if isinstance(ancestor, (cst.IndentedBlock, cst.Module)):
            for statement in _upwards(ancestor, below):
                if _is_backward(statement, node.value):
                    return True
                if any(node.value in rebound(part) for part in walk(statement)):
                    return False
        if isinstance(ancestor, (cst.For, cst.While, cst.FunctionDef, cst.Lambda)):
            return False
        below = ancestor
    return False


def _upwards(block: cst.IndentedBlock | cst.Module, below: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements above one of a block, the nearest first."""
    yield from reversed(list(itertools.takewhile(lambda one: one is not below, block.body)))


def _is_backward(statement: cst.CSTNode, name: str) -> bool:
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    return isinstance(call, cst.Call) and dotted(call.func) == f"{name}.backward"


def is_of_host(node: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is an array or a list, a part of one, or comes of its methods: `np.abs(a).max()`."""
    while isinstance(node, (cst.Attribute, cst.Call, cst.Subscript)) and facts.kind(node).what not in _OF_HOST:
        node = node.func if isinstance(node, cst.Call) else node.value
    return facts.kind(node).what in _OF_HOST


def values_of(name: str, facts: LoopFacts) -> Iterator[cst.BaseExpression | None]:
    """The values that a name is given; None for one that the loop's function or file does not show."""
    bound = False
    for node in _binding_nodes(facts.scope):
        if isinstance(node, (cst.Assign, cst.AnnAssign)) and name in rebound(node):
            bound = True
            yield from _assigned(name, node) if isinstance(node, cst.Assign) else [node.value]
        elif isinstance(node, (cst.AugAssign, cst.For, cst.With, cst.Import, cst.ImportFrom, cst.Del)):
            if name in rebound(node):
                bound = True
                yield None
        elif isinstance(node, (cst.NamedExpr, cst.ExceptHandler)) and _mentions(node, name):
            yield None
    if name in _shared_names(facts.source.module):
        yield None
    if isinstance(facts.scope, cst.FunctionDef):
        if name in parameters(facts.scope):
            yield None
        elif not bound:
            yield from _of_file(name, facts)


@lru_cache(maxsize=KEPT_WALKS)
def _shared_names(module: cst.Module) -> frozenset[str]:
    """The names that functions declare `global` or `nonlocal`: they have values that are not looked for here."""
    shared = (node for node in walk(module) if isinstance(node, (cst.Global, cst.Nonlocal)))
    return frozenset(item.name.value for node in shared for item in node.names)


@lru_cache(maxsize=KEPT_WALKS)
def _binding_nodes(scope: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes that may give a name a value, of all that are the scope's own."""
    return tuple(node for node in own_nodes(scope) if type(node) in _BINDING)


def _of_file(name: str, facts: LoopFacts) -> Iterator[cst.BaseExpression | None]:
    for node in _binding_nodes(facts.source.module):
        if isinstance(node, cst.Assign) and name in rebound(node):
            yield from _assigned(name, node)


def _mentions(node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(part, cst.Name) and part.value == name for part in walk(node))


def _assigned(name: str, node: cst.Assign) -> Iterator[cst.BaseExpression | None]:
    """What an assignment gives to a name: of `total, count = 0.0, 0` its own part, of a call that gives several all."""
    for target in node.targets:
        parts, value = target.target, node.value
        if isinstance(parts, cst.Name):
            yield from [value] if parts.value == name else []
        elif not isinstance(parts, (cst.Tuple, cst.List)):
            continue
        elif isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(parts.elements):
            pairs = zip(parts.elements, value.elements, strict=True)
            yield from (
                given.value for part, given in pairs if isinstance(part.value, cst.Name) and part.value.value == name
            )
        else:
            yield value if isinstance(value, cst.Call) else None
