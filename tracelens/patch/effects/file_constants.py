"""Which variables of a project stand for what nothing changes, told by the text alone: numbers, texts, functions.

In: a `FileText`. Out: `Place`s. Two objects that share nothing else do not meet in them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tracelens.patch.effects import syntax
from tracelens.patch.effects.file_text import FileText, Place, chain_of
from tracelens.patch.effects.scopes import FUNCTIONS, nodes_of, parameters

_TABLES = (ast.Dict, ast.List, ast.Set, ast.Tuple)


def constants(text: FileText) -> frozenset[Place]:
    """The variables that are bound to constants and functions only, or to tables of those that are only looked up."""
    good: set[Place] = set()
    other: set[Place] = set()
    handed_on = _handed_on(text)
    for code in text.around:
        other |= {Place(code, name) for name in (parameters(code) if isinstance(code, FUNCTIONS) else ())}
        nodes = list(nodes_of(code))  # type: ignore[arg-type]  # all that `around` has are pieces of code
        plain = {node for part in nodes for node in _plainly_bound(text, part, handed_on)}
        for node in nodes:
            name = _binds(node)
            owner = text.owner(name, code) if name else None
            if owner is not None:
                (good if node in plain else other).add(Place(owner, name))
    return frozenset(good - other)


def is_constant(node: ast.AST) -> bool:
    """Whether an expression gives a number, a text, or a tuple of such."""
    if isinstance(node, ast.Call):
        called = node.func
        return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Constant) and called.attr == "format"
    parts: Iterable[ast.AST] = node.elts if isinstance(node, ast.Tuple) else ()
    parts = (node.operand,) if isinstance(node, ast.UnaryOp) else parts
    parts = (node.left, node.right) if isinstance(node, ast.BinOp) else parts
    is_leaf = isinstance(node, (ast.Constant, ast.JoinedStr))
    return is_leaf or (isinstance(node, (ast.Tuple, ast.UnaryOp, ast.BinOp)) and all(map(is_constant, parts)))


def told_by_identity(node: ast.AST) -> frozenset[ast.AST]:
    """The names in a piece of which it only asks which object they stand for: `writer is not None`."""
    tests = (one for one in syntax.walk(node) if isinstance(one, ast.Compare))
    asked = (one for one in tests if all(isinstance(how, (ast.Is, ast.IsNot)) for how in one.ops))
    return frozenset(side for one in asked for side in (one.left, *one.comparators) if isinstance(side, ast.Name))


def _binds(node: ast.AST) -> str:
    """The name that a node binds; empty where it binds none."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, (ast.Store, ast.Del)) else ""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
        return node.name or ""
    return ""


def _plainly_bound(text: FileText, node: ast.AST, handed_on: frozenset[str]) -> Iterator[ast.AST]:
    """The nodes that give a name a constant, or define a function."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.decorator_list:
        yield node
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        aims = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [one for one in aims if isinstance(one, ast.Name)]
        only = names[0].id if len(names) == len(aims) == 1 else ""
        is_table = any(node in tree.body for tree in text.modules) and only not in ("", *handed_on)
        if node.value is not None and (is_constant(node.value) or (is_table and _is_table(text, node.value))):
            yield from names


def _is_table(text: FileText, value: ast.expr) -> bool:
    """Whether a value is a display of constants and functions."""
    leaves = (leaf for leaf in syntax.children(value) if isinstance(leaf, ast.expr))
    return isinstance(value, _TABLES) and all(is_constant(one) or _is_function(text, one) for one in leaves)


def _handed_on(text: FileText) -> frozenset[str]:
    """The names with which more is done somewhere than to look an element up or to go through them."""
    nodes = [node for tree in text.modules for node in syntax.walk(tree)]
    looked: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            looked.add(node.value)
        elif isinstance(node, ast.Compare) and all(isinstance(how, (ast.In, ast.NotIn)) for how in node.ops):
            looked.update(node.comparators)
        elif isinstance(node, (ast.For, ast.comprehension)):
            looked.add(node.iter)
    loaded = (one for one in nodes if isinstance(getattr(one, "ctx", None), ast.Load) and one not in looked)
    return frozenset(name for one in loaded if (name := getattr(one, "id", "") or getattr(one, "attr", "")))


def _is_function(text: FileText, node: ast.AST) -> bool:
    """Whether a name is one of a function, or of something in a library."""
    root = chain_of(node)[-1]
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(root, ast.Name) and root.id in text.libraries:
        return True
    return isinstance(node, ast.Name) and node.id in text.functions and node.id not in text.classes
