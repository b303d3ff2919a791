"""Where the text of a loop leaves it: what waits is read there before.

In: the facts of a loop. Out: the statements. A `return` and `sys.exit()` do so, and a `raise` that ends a training,
such as that of `StopIteration` at the last step. An error that no handler of the file names is not expected to come:
plain lines say with the patch what it loses, and the helpers lose nothing but an error of what waits, which would have
come first.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tracelens.patch.code.names import dotted, walk
from tracelens.patch.deferral import bar_texts
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.guards import is_exit


def leaving(facts: LoopFacts, breaks: bool, errors: bool = False) -> Iterator[cst.CSTNode]:
    """The lines that leave the loop, with those of its own `break`s and of errors where these count."""
    for node in bar_texts.of_loop(facts.loop):
        line = facts.source.parent(node)
        jumps = isinstance(node, cst.Return) or (breaks and isinstance(node, cst.Break))
        jumps = jumps or (errors and isinstance(node, cst.Raise) and isinstance(line, cst.SimpleStatementLine))
        if line is not None and (jumps or _ends_training(facts, node)):
            yield line


def _ends_training(facts: LoopFacts, node: cst.CSTNode) -> bool:
    if not isinstance(facts.source.parent(node), cst.SimpleStatementLine):
        return False
    if not isinstance(node, cst.Raise) or node.exc is None:
        return is_exit(node, facts.names)
    made = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
    name = dotted(made).rpartition(".")[2]
    return bool(name) and (not name.endswith("Error") or _is_caught(facts, name))


def _is_caught(facts: LoopFacts, name: str) -> bool:
    """Whether a handler of the file is for that error."""
    handlers = (part.type for part in walk(facts.source.module) if isinstance(part, cst.ExceptHandler))
    named = (part for kind in handlers if kind is not None for part in walk(kind))
    return any(isinstance(part, cst.Name) and part.value == name for part in named)
