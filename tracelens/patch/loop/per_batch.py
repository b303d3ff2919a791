"""What of a file runs once per batch, as nodes that recipes can walk.

In: a parsed file. Out: the bodies of its training loops and of their step functions, as `code/batches` finds them.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.batches import batches
from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.project import parsed


def step_bodies(source: SourceFile) -> tuple[cst.BaseSuite, ...]:
    """The bodies; none where the file does not train."""
    tree = parsed(source.data)
    if tree is None:
        return ()
    found = batches(tree)
    lines = {node.lineno for node in (*found.loops, *found.functions)}
    parts = (node for node in walk(source.module) if isinstance(node, cst.For | cst.While | cst.FunctionDef))
    return tuple(part.body for part in parts if source.line(part) in lines)
