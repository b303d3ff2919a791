"""Where the training loops of a project stand, for a line that has to run once before them, and what runs per batch.

In: a parsed file. Out: statements, by Python's own parser; the bodies of loops and step functions, by LibCST.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import libcst as cst

from tracelens.patch.code.batches import Loop, batches
from tracelens.patch.code.names import walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.project import parsed
from tracelens.patch.loop.project_trees import above, own_tree

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_BELOW_IMPORTS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.While, ast.With)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@lru_cache(maxsize=PARSED_FILES)
def loops_of_project(source: SourceFile) -> Mapping[Path, tuple[Loop, ...]]:
    """By file, the loops that train."""
    found = {path: batches(tree).loops for path, tree in source.trees.items()}
    return {path: loops for path, loops in found.items() if loops}


def outermost_loop(tree: ast.Module, node: ast.AST) -> ast.stmt | None:
    """The loop of its own function around a node, or the node itself, that no other loop of that function is around."""
    outer: ast.stmt | None = node if isinstance(node, Loop) else None
    for ancestor in above(tree, node):
        if isinstance(ancestor, _FUNCTIONS):
            break
        if isinstance(ancestor, Loop):
            outer = ancestor
    return outer


def function_around(tree: ast.Module, node: ast.AST) -> FunctionNode | None:
    """The innermost function that holds a node."""
    return next((one for one in above(tree, node) if isinstance(one, FunctionNode)), None)


def before_training(source: SourceFile) -> ast.stmt | None:
    """Where a setting of the training is made, if that is in this file: above the loop, where one place of the project
    has all that train and runs once; else below the last import of the script that was started."""
    loops = [(path, loop) for path, found in loops_of_project(source).items() for loop in found]
    outer = {id(one): (path, one) for path, loop in loops for one in [_run_once(source, path, loop)]}
    if len(outer) == 1 and None not in outer:
        ((path, statement),) = outer.values()
        if statement is not None:
            return statement if path == source.path else None
    return _last_import(own_tree(source)) if source.path == (source.entry or source.path) else None


def _run_once(source: SourceFile, path: Path, loop: Loop) -> ast.stmt | None:
    """The outermost loop around one over batches; None where that is the loop itself, in a function that may be called
    for each epoch."""
    tree = source.trees[path]
    outer = outermost_loop(tree, loop)
    return None if outer is loop and function_around(tree, loop) is not None else outer


def _last_import(tree: ast.Module) -> ast.stmt | None:
    """The last import above everything that the file defines or repeats; the first one where there is none."""
    imports = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    first = next(
        (one.lineno for one in tree.body if isinstance(one, _BELOW_IMPORTS)), imports[-1].lineno + 1 if imports else 0
    )
    return next((one for one in reversed(imports) if one.lineno < first), imports[0] if imports else None)


def step_bodies(source: SourceFile) -> tuple[cst.BaseSuite, ...]:
    """The bodies; none where the file does not train."""
    tree = parsed(source.data)
    if tree is None:
        return ()
    found = batches(tree)
    lines = {node.lineno for node in (*found.loops, *found.functions)}
    parts = (node for node in walk(source.module) if isinstance(node, cst.For | cst.While | cst.FunctionDef))
    return tuple(part.body for part in parts if source.line(part) in lines)
